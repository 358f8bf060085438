//! Many records, few packets: groups that belong together are packed one after the other, each packet as full as an
//! Ethernet frame allows.

use crate::wire::{Message, PACKET_BYTES, Room};

/// Packs groups into packets of one kind.
pub(crate) struct Packer {
    template: Message,
    message: Message,
    tags: Vec<u64>,
    room: Room,
    packed: Vec<Packed>,
}

/// One packet, and what the groups in it were tagged with.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) tags: Vec<u64>,
}

impl Packer {
    /// Packets with the header of `template`.
    pub(crate) fn new(template: Message) -> Self {
        let message = template.clone();
        Self { template, message, tags: Vec::new(), room: Room::default(), packed: Vec::new() }
    }

    pub(crate) fn responses() -> Self {
        Self::new(Message { is_response: true, ..Message::default() })
    }

    /// Adds entries that are to be in one packet.
    pub(crate) fn add(&mut self, group: Message, tag: Option<u64>) {
        let is_empty = self.message == self.template;
        self.room.fill(&group);
        if !is_empty && self.room.used() > PACKET_BYTES {
            self.flush();
            self.room.fill(&group);
        }
        self.message.questions.extend(group.questions);
        self.message.answers.extend(group.answers);
        self.message.authorities.extend(group.authorities);
        self.message.additionals.extend(group.additionals);
        self.tags.extend(tag);
    }

    fn flush(&mut self) {
        let message = core::mem::replace(&mut self.message, self.template.clone());
        let tags = core::mem::take(&mut self.tags);
        self.room = Room::default();
        if message == self.template {
            return;
        }
        // What does not fit any packet cannot be sent at all; a service that was checked always fits.
        match message.write() {
            Some(bytes) => self.packed.push(Packed { bytes, tags }),
            None => tracing::warn!("mDNS message dropped: it does not fit into a packet"),
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Packed> {
        self.flush();
        self.packed
    }
}
