//! Leases as ephemeral nodes, for the load: every connection is a session, and answers come in the order of requests.

use super::jute::{self, EVENT_XID, Node, Reader};
use crate::peers::peer::BUNDLE;
use crate::peers::wire::{Ask, Names, Of, Protocol, Said, Taken};
use anyhow::Result;

pub(super) struct Nodes {
    pub(super) names: Names,
    /// The node they are children of.
    pub(super) parent: &'static str,
}

impl Protocol for Nodes {
    /// The number of the name; of a bundle's, of the last.
    type Hold = u64;

    fn put(&mut self, ask: &Ask<u64>, tag: u32, out: &mut Vec<u8>) {
        let xid = tag as i32;
        match ask {
            Ask::Acquire(place) => jute::put_create(xid, &self.path(*place), Node::Ephemeral, out),
            // One renews all of its session, whichever was meant.
            Ask::Renew(_) => jute::put_ping(out),
            Ask::Release(place) => jute::put_delete(xid, &self.path(*place), out),
            Ask::AcquireBundle(place) => jute::put_create_all(xid, &self.bundle(*place), out),
            Ask::ReleaseBundle(place) => jute::put_delete_all(xid, &self.bundle(*place), out),
            Ask::AcquireContended => jute::put_create(xid, &self.path(0), Node::Ephemeral, out),
        }
    }

    fn about(&self, ask: &Ask<u64>) -> Option<u64> {
        match ask {
            Ask::Acquire(place)
            | Ask::Renew(place)
            | Ask::Release(place)
            | Ask::AcquireBundle(place)
            | Ask::ReleaseBundle(place) => Some(*place),
            Ask::AcquireContended => Some(0),
        }
    }

    fn take(&self, arrived: &[u8]) -> Result<Option<Taken<u64>>> {
        let Some(frame) = jute::first_frame(arrived)? else { return Ok(None) };
        let mut reader = Reader::new(frame);
        let header = reader.header()?;
        let of = if header.xid == EVENT_XID { Of::Nothing } else { Of::Oldest };
        // No answer but that of a bundle begins like one that was not carried out: others have a length there.
        let said = if header.error == 0 && !reader.is_undone() { Said::Done(None) } else { Said::Refused };
        Ok(Some(Taken { bytes: 4 + frame.len(), of, said }))
    }
}

impl Nodes {
    fn path(&self, place: u64) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.parent.len() + 17);
        path.extend_from_slice(self.parent.as_bytes());
        path.push(b'/');
        self.names.put(place, &mut path);
        path
    }

    /// The names up to this one: the load counts to the last of a bundle.
    fn bundle(&self, last: u64) -> [Vec<u8>; BUNDLE] {
        let first = last + 1 - BUNDLE as u64;
        std::array::from_fn(|place| self.path(first + place as u64))
    }
}
