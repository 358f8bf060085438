//! Entries and silences by the kernel's slots, and sessions by id. Slots of sessions are liveness' own.

use crate::entry::Entry;
use crate::session::SessionEntry;
use hashbrown::HashMap;
use tenure_kernel::{HolderSlot, LeaseSlot, SessionId, Tick};

const CHUNK: usize = 1 << 10;

/// Entries grow in chunks, like the kernel's leases they stand beside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    chunks: Vec<Vec<Entry>>,
}

impl Entries {
    #[inline]
    pub(crate) fn get(&self, slot: LeaseSlot) -> Entry {
        self.chunks.get(slot.0 as usize / CHUNK).map_or(Entry::NONE, |chunk| chunk[slot.0 as usize % CHUNK])
    }

    #[inline]
    pub(crate) fn get_ref(&self, slot: LeaseSlot) -> Option<&Entry> {
        self.chunks.get(slot.0 as usize / CHUNK)?.get(slot.0 as usize % CHUNK)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: LeaseSlot) -> &mut Entry {
        let chunk = slot.0 as usize / CHUNK;
        while self.chunks.len() <= chunk {
            self.chunks.push(vec![Entry::NONE; CHUNK]);
        }
        &mut self.chunks[chunk][slot.0 as usize % CHUNK]
    }
}

/// When each holder last fell silent. A chunk takes memory once one of its holders did.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastSilences {
    chunks: Vec<Vec<Option<Tick>>>,
}

impl LastSilences {
    /// Puts the present silence in the place of the one before.
    pub(crate) fn replace(&mut self, holder: HolderSlot, now: Tick) -> Option<Tick> {
        let (chunk, index) = (holder.0 as usize / CHUNK, holder.0 as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, Vec::new());
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.is_empty() {
            chunk.resize(CHUNK, None);
        }
        chunk[index].replace(now)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<SessionEntry>>,
    free: Vec<u32>,
    index: HashMap<SessionId, u32, foldhash::fast::FixedState>,
}

impl Sessions {
    pub(crate) fn find(&self, id: SessionId) -> Option<u32> {
        self.index.get(&id).copied()
    }

    pub(crate) fn by_id(&self, id: SessionId) -> Option<&SessionEntry> {
        self.find(id).and_then(|slot| self.get(slot))
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&SessionEntry> {
        self.slots.get(slot as usize).and_then(Option::as_ref)
    }

    pub(crate) fn in_slot(&mut self, slot: u32) -> Option<&mut SessionEntry> {
        self.slots.get_mut(slot as usize).and_then(Option::as_mut)
    }

    pub(crate) fn insert(&mut self, entry: SessionEntry) -> u32 {
        let id = entry.id;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
        };
        self.slots[slot as usize] = Some(entry);
        self.index.insert(id, slot);
        slot
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> Option<SessionEntry> {
        let slot = self.index.remove(&id)?;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }
}
