//! Live leases in order of their ids. Ids only grow, so entries arrive at the end; they leave anywhere.
//!
//! A list of sorted pages: `[1 4 9 …] [512 513 …] [900 …]`. Appending fills the last page, removing
//! shrinks one page, and a page that fell below a quarter joins its neighbour. About 12 bytes an entry.

use crate::ids::Lsn;

const PAGE: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Roster {
    pages: Vec<Page>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Page {
    first: Lsn,
    entries: Vec<Entry>,
}

// Packed to 12 bytes; the halves are only ever put together again.
#[derive(Clone, Copy, Debug)]
struct Entry {
    lsn_high: u32,
    lsn_low: u32,
    slot: u32,
}

impl Entry {
    fn new(lsn: Lsn, slot: u32) -> Self {
        Self { lsn_high: (lsn.0 >> 32) as u32, lsn_low: lsn.0 as u32, slot }
    }

    fn lsn(self) -> Lsn {
        Lsn((u64::from(self.lsn_high) << 32) | u64::from(self.lsn_low))
    }
}

impl Roster {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a lease granted after all others.
    pub(crate) fn push(&mut self, lsn: Lsn, slot: u32) {
        self.len += 1;
        match self.pages.last_mut() {
            Some(page) if page.entries.len() < PAGE => {
                debug_assert!(page.entries.last().is_none_or(|last| last.lsn() < lsn));
                page.entries.push(Entry::new(lsn, slot));
            }
            Some(_) | None => {
                let mut entries = Vec::with_capacity(PAGE);
                entries.push(Entry::new(lsn, slot));
                self.pages.push(Page { first: lsn, entries });
            }
        }
    }

    /// Adds an entry out of order, for tests of the scan that must find it.
    #[cfg(test)]
    pub(crate) fn push_unchecked(&mut self, lsn: Lsn, slot: u32) {
        self.len += 1;
        self.pages.push(Page { first: lsn, entries: vec![Entry::new(lsn, slot)] });
    }

    /// Takes a lease out; it must be in.
    pub(crate) fn remove(&mut self, lsn: Lsn) {
        let page_index = self.pages.partition_point(|page| page.first <= lsn) - 1;
        let page = &mut self.pages[page_index];
        let index = page
            .entries
            .binary_search_by_key(&lsn, |entry| entry.lsn())
            .expect("invariant: a live lease is on the roster");
        page.entries.remove(index);
        self.len -= 1;
        if page.entries.is_empty() {
            self.pages.remove(page_index);
        } else if page.entries.len() < PAGE / 4 {
            self.join_with_next(page_index);
        }
    }

    /// Leases with an id of at least `from`, in order.
    pub(crate) fn iter_from(&self, from: Lsn) -> impl Iterator<Item = (Lsn, u32)> {
        let page_index = self.pages.partition_point(|page| page.first <= from).saturating_sub(1);
        self.pages[page_index.min(self.pages.len())..]
            .iter()
            .flat_map(|page| page.entries.iter())
            .map(|entry| (entry.lsn(), entry.slot))
            .skip_while(move |(lsn, _)| *lsn < from)
    }

    fn join_with_next(&mut self, page_index: usize) {
        if page_index + 1 >= self.pages.len() {
            return;
        }
        if self.pages[page_index].entries.len() + self.pages[page_index + 1].entries.len() > PAGE {
            return;
        }
        let next = self.pages.remove(page_index + 1);
        self.pages[page_index].entries.extend(next.entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_an_ordered_map() {
        let mut roster = Roster::default();
        let mut model = BTreeMap::new();
        let mut state = 7_u64;
        for step in 1..20_000_u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if state >> 62 > 0 || model.is_empty() {
                roster.push(Lsn(step), step as u32);
                model.insert(step, step as u32);
            } else {
                let key = *model.range(state % step..).next().or(model.iter().next()).unwrap().0;
                roster.remove(Lsn(key));
                model.remove(&key);
            }
            if step % 977 == 0 {
                let from = state % step;
                let got: Vec<_> = roster.iter_from(Lsn(from)).map(|(l, s)| (l.0, s)).collect();
                let want: Vec<_> = model.range(from..).map(|(l, s)| (*l, *s)).collect();
                assert_eq!(got, want);
                assert_eq!(roster.len(), model.len());
            }
        }
    }
}
