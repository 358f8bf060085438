//! Requests not yet handled, by urgency. Each lane has room of its own, so that a flood of one kind is
//! answered `overloaded` while the others go on.

use crate::request::{Input, Lane, Request, Ticket};
use std::collections::VecDeque;

/// Requests looked at together before the first is handled.
pub(crate) const AHEAD: usize = 32;

#[derive(Debug)]
pub(crate) struct Lanes {
    queues: [VecDeque<Input>; 4],
    room: usize,
}

impl Lanes {
    /// `inbox` requests in all, a quarter for each lane.
    pub(crate) fn new(inbox: usize) -> Self {
        Self { queues: Default::default(), room: (inbox / 4).max(1) }
    }

    /// Whether the lane this request belongs to has room.
    pub(crate) fn has_room_for(&self, request: &Request) -> bool {
        self.has_room_in(request.lane())
    }

    pub(crate) fn has_room_in(&self, lane: Lane) -> bool {
        self.queues[lane as usize].len() < self.room
    }

    /// Tickets of what waits in a lane.
    pub(crate) fn tickets(&self, lane: Lane) -> impl Iterator<Item = Ticket> {
        self.queues[lane as usize].iter().map(|input| input.ticket)
    }

    pub(crate) fn push(&mut self, input: Input) {
        self.queues[input.request.lane() as usize].push_back(input);
    }

    /// The next requests of a lane, first first.
    pub(crate) fn ahead(&self, lane: Lane) -> impl Iterator<Item = &Request> {
        self.queues[lane as usize].iter().take(AHEAD).map(|input| &input.request)
    }

    pub(crate) fn pop(&mut self, lane: Lane) -> Option<Input> {
        self.queues[lane as usize].pop_front()
    }

    pub(crate) fn len(&self, lane: Lane) -> usize {
        self.queues[lane as usize].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Input> {
        self.queues.iter_mut().flat_map(|queue| queue.drain(..))
    }
}
