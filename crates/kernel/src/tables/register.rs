//! Every lease that is live or still remembered, in order of its id.
//!
//! Ids only grow, so entries arrive at the end: `[1 4 9 …] [512 513 …] [900 …]`. A page is found by its first
//! id, an entry by where it should stand if ids were evenly spread, which they nearly are. An ended lease
//! keeps its entry; one that is remembered no longer leaves when its page is next tidied. Eight bytes each.

use crate::ids::Lsn;
use core::cell::Cell;

const PAGE: usize = 256;
/// So few pages are searched by halves.
const NARROW: usize = 16;
/// Searches remembered; more than the engine looks ahead.
const HINTS: usize = 256;
/// Leases looked up in step.
const TOGETHER: usize = 32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Register {
    /// First id of each page, apart from the pages so that searching stays in the cache.
    firsts: Vec<Lsn>,
    pages: Vec<Page>,
    live: usize,
    /// Where recent searches ended, by the low bits of the id. A lease is looked for several times within
    /// one turn; a hint that no longer fits is recognised and costs nothing.
    hints: Hints,
}

#[derive(Clone, Debug)]
struct Hints([Cell<Position>; HINTS]);

impl Default for Hints {
    fn default() -> Self {
        Self([const { Cell::new(Position { page: 0, index: 0 }) }; HINTS])
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    page: u32,
    index: u32,
}

#[derive(Clone, Debug)]
struct Page {
    entries: Vec<Entry>,
    /// Offset of the last entry, here so that a search touches one line of the page and not two.
    spread: u32,
    live: u16,
    ended: u16,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Distance from the page's first id.
    offset: u32,
    place: Place,
}

/// Where a lease's record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u32);

/// What a place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    /// In this slot of the live leases.
    Live(u32),
    /// Under this key among the ended ones, if it is still there.
    Ended(u32),
}

const ENDED_BIT: u32 = 1 << 31;

impl Place {
    fn live(slot: u32) -> Self {
        assert!(slot < ENDED_BIT, "invariant: the slab never has 2^31 leases");
        Self(slot)
    }

    fn ended(key: u32) -> Self {
        Self(key | ENDED_BIT)
    }

    pub(crate) fn what(self) -> Where {
        if self.0 & ENDED_BIT == 0 { Where::Live(self.0) } else { Where::Ended(self.0 & !ENDED_BIT) }
    }
}

impl Register {
    /// Number of live leases.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Adds a lease granted after all others.
    pub(crate) fn push_live(&mut self, lsn: Lsn, slot: u32) {
        self.live += 1;
        let page = self.push(lsn, Place::live(slot));
        page.live += 1;
    }

    /// Adds an ended lease whose id is above all others: only a snapshot brings those.
    pub(crate) fn push_ended(&mut self, lsn: Lsn, key: u32) {
        let page = self.push(lsn, Place::ended(key));
        page.ended += 1;
    }

    /// Where the record of a lease is. An ended one may be gone: its key tells.
    #[inline]
    pub(crate) fn find(&self, lsn: Lsn) -> Option<Where> {
        let (page, index) = self.locate(lsn)?;
        Some(self.pages[page].entries[index].place.what())
    }

    /// Where the records of several leases are. Each step is a loop of its own, so short that what one lease
    /// misses in the cache is fetched while the others are looked at.
    pub(crate) fn find_all(&self, wanted: &[Lsn], found: &mut [Option<Where>]) {
        let mut pages = [usize::MAX; TOGETHER];
        for (some, found) in wanted.chunks(TOGETHER).zip(found.chunks_mut(TOGETHER)) {
            for (lsn, page) in some.iter().zip(&mut pages) {
                *page = self.page_of(*lsn).unwrap_or(usize::MAX);
            }
            for (lsn, page) in some.iter().zip(&pages) {
                core::hint::black_box(self.pages.get(*page).map(|page| (page.spread, lsn)));
            }
            for (lsn, page) in some.iter().zip(&pages) {
                core::hint::black_box(self.expected(*lsn, *page));
            }
            for ((lsn, page), found) in some.iter().zip(&pages).zip(found) {
                *found = self
                    .locate_on(*lsn, *page)
                    .map(|(page, index)| self.pages[page].entries[index].place.what());
            }
        }
    }

    /// The entry at the place where an id should stand, whether or not it does.
    #[inline]
    fn expected(&self, lsn: Lsn, page: usize) -> Option<u32> {
        let offset = (lsn.0 - self.firsts.get(page)?.0) as u32;
        let page = &self.pages[page];
        page.entries.get(page.guess(offset)).map(|entry| entry.offset)
    }

    /// A live lease ended and is remembered under this key.
    pub(crate) fn end(&mut self, lsn: Lsn, key: u32) {
        let (page, index) = self.locate(lsn).expect("invariant: a live lease is registered");
        let page = &mut self.pages[page];
        page.entries[index].place = Place::ended(key);
        page.live -= 1;
        page.ended += 1;
        self.live -= 1;
    }

    /// An ended lease is remembered no longer. `kept` says which others still are.
    pub(crate) fn retire(&mut self, lsn: Lsn, kept: impl Fn(u32) -> bool) {
        let index = self.page_of(lsn).expect("invariant: an ended lease is registered");
        let growing = index + 1 == self.pages.len();
        let page = &mut self.pages[index];
        page.ended -= 1;
        let useful = usize::from(page.live) + usize::from(page.ended);
        if useful == 0 && !growing {
            self.firsts.remove(index);
            self.pages.remove(index);
        } else if useful < page.entries.len() / 2 {
            page.entries.retain(|entry| match entry.place.what() {
                Where::Live(_) => true,
                Where::Ended(key) => kept(key),
            });
            page.spread = page.entries.last().map_or(0, |entry| entry.offset);
            self.join_with_next(index);
        }
    }

    /// Live leases with an id of at least `from`, in order.
    pub(crate) fn live_from(&self, from: Lsn) -> impl Iterator<Item = (Lsn, u32)> {
        let start = self.page_of(from).unwrap_or(0);
        self.pages[start..]
            .iter()
            .zip(&self.firsts[start..])
            .filter(|(page, _)| page.live > 0)
            .flat_map(|(page, first)| page.entries.iter().map(|entry| (*first, entry)))
            .filter_map(|(first, entry)| match entry.place.what() {
                Where::Live(slot) => Some((Lsn(first.0 + u64::from(entry.offset)), slot)),
                Where::Ended(_) => None,
            })
            .skip_while(move |(lsn, _)| *lsn < from)
    }

    fn push(&mut self, lsn: Lsn, place: Place) -> &mut Page {
        let fits = match (self.pages.last(), self.firsts.last()) {
            (Some(page), Some(first)) => page.entries.len() < PAGE && lsn.0 - first.0 <= u64::from(u32::MAX),
            _ => false,
        };
        if !fits {
            self.firsts.push(lsn);
            self.pages.push(Page { entries: Vec::with_capacity(PAGE), spread: 0, live: 0, ended: 0 });
        }
        let first = self.firsts[self.firsts.len() - 1];
        let last = self.pages.len() - 1;
        let page = &mut self.pages[last];
        let offset = (lsn.0 - first.0) as u32;
        let rises = page.entries.last().is_none_or(|last| last.offset < offset);
        assert!(rises, "invariant: ids are entered in their order");
        page.entries.push(Entry { offset, place });
        page.spread = offset;
        page
    }

    /// The page an id would stand on: narrowed by where it should be, then by halves.
    #[inline]
    fn page_of(&self, lsn: Lsn) -> Option<usize> {
        let firsts = &self.firsts[..];
        let (mut low, mut high) = (0, firsts.len());
        if high == 0 || lsn < firsts[0] {
            return None;
        }
        // Invariant: firsts[low] <= lsn, and firsts[high] > lsn where there is one.
        while high - low > NARROW {
            let (first, last) = (firsts[low].0, firsts[high - 1].0);
            if lsn.0 >= last {
                return Some(high - 1);
            }
            let part = (lsn.0 - first) as f32 / (last - first) as f32;
            let guess = low + ((part * (high - 1 - low) as f32) as usize).min(high - 2 - low);
            // A window around the guess; if it holds the id the rest need not be looked at.
            let (left, right) =
                (guess.saturating_sub(NARROW / 4).max(low), (guess + NARROW / 4).min(high - 1));
            if firsts[left] > lsn {
                high = left;
            } else if firsts[right] <= lsn {
                low = right;
            } else {
                (low, high) = (left, right);
            }
            // One old lease far below the others bends every guess to the end: halving bounds the search.
            let middle = low + (high - low) / 2;
            if firsts[middle] <= lsn {
                low = middle;
            } else {
                high = middle;
            }
            #[cfg(test)]
            tests::SEARCH_STEPS.with(|steps| steps.set(steps.get() + 1));
        }
        Some(low + firsts[low..high].partition_point(|first| *first <= lsn) - 1)
    }

    #[inline]
    fn locate(&self, lsn: Lsn) -> Option<(usize, usize)> {
        let hint = &self.hints.0[lsn.0 as usize % HINTS];
        let Position { page, index } = hint.get();
        if let (Some(first), Some(found)) = (self.firsts.get(page as usize), self.pages.get(page as usize))
            && let Some(entry) = found.entries.get(index as usize)
            && first.0 + u64::from(entry.offset) == lsn.0
        {
            return Some((page as usize, index as usize));
        }
        self.locate_on(lsn, self.page_of(lsn)?)
    }

    /// Finds the entry of an id on its page, and remembers where.
    #[inline]
    fn locate_on(&self, lsn: Lsn, page: usize) -> Option<(usize, usize)> {
        let offset = u32::try_from(lsn.0 - self.firsts.get(page)?.0).ok()?;
        let index = self.pages[page].index_of(offset)?;
        self.hints.0[lsn.0 as usize % HINTS].set(Position { page: page as u32, index: index as u32 });
        Some((page, index))
    }

    fn join_with_next(&mut self, index: usize) {
        let Some(next_first) = self.firsts.get(index + 1) else { return };
        let distance = next_first.0 - self.firsts[index].0;
        let together = self.pages[index].entries.len() + self.pages[index + 1].entries.len();
        let last_offset = self.pages[index + 1].entries.last().map_or(0, |entry| u64::from(entry.offset));
        // The last page keeps growing; joining it would only make it be split again.
        if together > PAGE / 2
            || index + 2 >= self.pages.len()
            || distance + last_offset > u64::from(u32::MAX)
        {
            return;
        }
        self.firsts.remove(index + 1);
        let next = self.pages.remove(index + 1);
        let page = &mut self.pages[index];
        page.live += next.live;
        page.ended += next.ended;
        page.entries.extend(
            next.entries.into_iter().map(|entry| Entry { offset: entry.offset + distance as u32, ..entry }),
        );
        page.spread = page.entries.last().map_or(0, |entry| entry.offset);
    }
}

impl Page {
    /// Where an entry should stand if ids were evenly spread.
    #[inline]
    fn guess(&self, offset: u32) -> usize {
        let last = self.entries.len().saturating_sub(1);
        // Without gaps an entry stands at its own offset.
        if self.spread as usize == last {
            return (offset as usize).min(last);
        }
        let part = offset as f32 / self.spread.max(1) as f32;
        ((part * last as f32) as usize).min(last)
    }

    /// From where an entry should stand to where it does: ids are nearly even, so this is a step or two.
    #[inline]
    fn index_of(&self, offset: u32) -> Option<usize> {
        let last = self.entries.len().checked_sub(1)?;
        if offset > self.spread {
            return None;
        }
        let mut index = self.guess(offset);
        while self.entries[index].offset < offset && index < last {
            index += 1;
        }
        while self.entries[index].offset > offset && index > 0 {
            index -= 1;
        }
        (self.entries[index].offset == offset).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    thread_local! {
        pub(super) static SEARCH_STEPS: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_search_is_short_however_uneven_the_ids() {
        // One lease of long ago, then very many of today: the search once went page by page.
        for old in [1, 1 << 20] {
            let mut register = Register::default();
            register.push_live(Lsn(old), 0);
            let today = 1 << 40;
            for lsn in today..today + 80_000 {
                register.push_live(Lsn(lsn), lsn as u32 & 0xff_ffff);
            }
            for lsn in (today..today + 80_000).step_by(499) {
                SEARCH_STEPS.with(|steps| steps.set(0));
                assert_eq!(register.find(Lsn(lsn)), Some(Where::Live(lsn as u32 & 0xff_ffff)));
                let steps = SEARCH_STEPS.with(Cell::get);
                assert!(steps <= 12, "{steps} steps for {lsn}");
            }
            assert_eq!(register.find(Lsn(old)), Some(Where::Live(0)));
            assert_eq!(register.find(Lsn(old + 1)), None);
            assert_eq!(register.find(Lsn(today - 1)), None);
        }
    }

    /// Pushes `ids`, ends all but every sixteenth, retires those, and compares what is left.
    fn thin_out(ids: &[u64]) -> Register {
        let mut register = Register::default();
        for (slot, lsn) in ids.iter().enumerate() {
            register.push_live(Lsn(*lsn), slot as u32);
        }
        let stays = |place: usize| place % 16 == 5;
        let mut remembered: BTreeMap<u64, u32> = BTreeMap::new();
        let mut remembered_keys: BTreeSet<u32> = BTreeSet::new();
        for (place, lsn) in ids.iter().enumerate().filter(|(place, _)| !stays(*place)) {
            register.end(Lsn(*lsn), place as u32);
            remembered.insert(*lsn, place as u32);
            remembered_keys.insert(place as u32);
        }
        // In no order, so that pages join while they still remember some.
        let mut leaving: Vec<u64> = remembered.keys().copied().collect();
        leaving.sort_by_key(|lsn| lsn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for lsn in leaving {
            remembered_keys.remove(&remembered.remove(&lsn).unwrap());
            register.retire(Lsn(lsn), |key| remembered_keys.contains(&key));
        }
        let left: Vec<(Lsn, u32)> = ids
            .iter()
            .enumerate()
            .filter(|(place, _)| stays(*place))
            .map(|(place, lsn)| (Lsn(*lsn), place as u32))
            .collect();
        assert!(register.live_from(Lsn(0)).eq(left.iter().copied()));
        for (lsn, slot) in left {
            assert_eq!(register.find(lsn), Some(Where::Live(slot)));
        }
        assert!(register.firsts.is_sorted());
        assert_eq!(register.firsts.len(), register.pages.len());
        for page in &register.pages {
            assert!(page.entries.len() <= PAGE);
            let live = page.entries.iter().filter(|entry| matches!(entry.place.what(), Where::Live(_)));
            assert_eq!(live.count(), usize::from(page.live));
            assert_eq!(page.ended, 0);
        }
        register
    }

    #[test]
    fn thinned_pages_join_and_keep_their_ids() {
        let ids: Vec<u64> = (0..PAGE as u64 * 40).map(|n| 7 + n * 3).collect();
        let register = thin_out(&ids);
        // Sixteen stay of each of forty pages, and a joined page holds at most 128.
        assert!((5..=14).contains(&register.pages.len()), "{} pages", register.pages.len());
    }

    #[test]
    fn pages_too_far_apart_for_an_offset_do_not_join() {
        let apart = 1 << 31;
        let ids: Vec<u64> =
            (0..PAGE as u64 * 12).map(|n| 7 + n / PAGE as u64 * apart + n % PAGE as u64).collect();
        let register = thin_out(&ids);
        // Two of them lie within 2^32, three do not; the last page is left to grow.
        assert!((6..=8).contains(&register.pages.len()), "{} pages", register.pages.len());
    }

    #[test]
    fn the_last_page_stays_to_be_filled() {
        let mut register = Register::default();
        for lsn in 1..=3 {
            register.push_live(Lsn(lsn), 0);
            register.end(Lsn(lsn), 9);
        }
        for lsn in 1..=3 {
            register.retire(Lsn(lsn), |key| u64::from(key) > lsn);
        }
        assert_eq!(register.pages.len(), 1);
        register.push_live(Lsn(50), 4);
        assert_eq!(register.pages.len(), 1);
        assert_eq!(register.find(Lsn(50)), Some(Where::Live(4)));
    }

    #[test]
    fn nothing_is_found_in_an_empty_register() {
        let register = Register::default();
        assert_eq!(register.find(Lsn(1)), None);
        assert_eq!(register.live_from(Lsn(0)).count(), 0);
    }

    #[test]
    fn every_id_is_found_and_no_other() {
        let mut register = Register::default();
        // Several pages, gaps of two and more, and one gap too wide for an offset.
        let ids: Vec<u64> = (1..=3_000).map(|n| n * 3 + if n > 2_000 { 1 << 34 } else { 0 }).collect();
        for (slot, lsn) in ids.iter().enumerate() {
            register.push_live(Lsn(*lsn), slot as u32);
        }
        for (slot, lsn) in ids.iter().enumerate() {
            assert_eq!(register.find(Lsn(lsn - 1)), None);
            assert_eq!(register.find(Lsn(*lsn)), Some(Where::Live(slot as u32)));
            assert_eq!(register.find(Lsn(lsn + 1)), None);
            assert_eq!(register.live_from(Lsn(*lsn)).next(), Some((Lsn(*lsn), slot as u32)));
            assert_eq!(register.live_from(Lsn(lsn - 1)).next(), Some((Lsn(*lsn), slot as u32)));
        }
        assert_eq!(register.live(), 3_000);
    }

    #[test]
    fn behaves_like_an_ordered_map() {
        let mut register = Register::default();
        let mut live: BTreeMap<u64, u32> = BTreeMap::new();
        let mut ended: BTreeMap<u64, u32> = BTreeMap::new();
        let mut ended_keys: BTreeSet<u32> = BTreeSet::new();
        let mut state = 7_u64;
        let mut lsn = 0;
        for step in 1..60_000_u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // Uneven ids: now and then a long way apart.
            lsn += 1 + (state >> 20) % 3 + if state.is_multiple_of(5_000) { 1 << 33 } else { 0 };
            let pick = |map: &BTreeMap<u64, u32>| {
                let from = if lsn == 0 { 0 } else { state % lsn };
                map.range(from..).next().or(map.iter().next()).map(|(lsn, _)| *lsn)
            };
            match state >> 61 {
                0..=3 => {
                    register.push_live(Lsn(lsn), step as u32);
                    live.insert(lsn, step as u32);
                }
                4..=5 => {
                    if let Some(lsn) = pick(&live) {
                        register.end(Lsn(lsn), step as u32);
                        live.remove(&lsn);
                        ended.insert(lsn, step as u32);
                        ended_keys.insert(step as u32);
                    }
                }
                _ => {
                    if let Some(lsn) = pick(&ended) {
                        ended_keys.remove(&ended.remove(&lsn).unwrap());
                        register.retire(Lsn(lsn), |key| ended_keys.contains(&key));
                    }
                }
            }
            if step % 2_000 == 0 {
                let from = state % lsn;
                let got: Vec<_> = register.live_from(Lsn(from)).map(|(l, s)| (l.0, s)).collect();
                let want: Vec<_> = live.range(from..).map(|(l, s)| (*l, *s)).collect();
                assert_eq!(got, want);
                assert_eq!(register.live(), live.len());
                for (lsn, slot) in &live {
                    assert_eq!(register.find(Lsn(*lsn)), Some(Where::Live(*slot)));
                }
                for (lsn, key) in &ended {
                    assert_eq!(register.find(Lsn(*lsn)), Some(Where::Ended(*key)));
                }
                assert_eq!(register.find(Lsn(lsn + 1)), None);
            }
        }
    }

    #[test]
    fn pages_shrink_with_what_they_remember() {
        let mut register = Register::default();
        for lsn in 1..=100_000 {
            register.push_live(Lsn(lsn), lsn as u32);
        }
        for lsn in 1..=99_000 {
            register.end(Lsn(lsn), lsn as u32);
        }
        for lsn in 1..=99_000 {
            register.retire(Lsn(lsn), |key| u64::from(key) > lsn);
        }
        assert!(register.pages.len() < 8, "{} pages for 1000 leases", register.pages.len());
        assert_eq!(register.live_from(Lsn(0)).count(), 1_000);
    }
}
