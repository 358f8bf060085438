//! Requests not yet handled, by urgency. Each lane has room of its own, so that a flood of one kind is
//! answered `overloaded` while the others go on.

use crate::request::{Input, Lane, Request, Share, Ticket};
use std::collections::VecDeque;

/// Requests looked at together before the first is handled.
pub(crate) const AHEAD: usize = 32;

#[derive(Debug)]
pub(crate) struct Lanes {
    queues: [VecDeque<Input>; 4],
    /// Of each lane, by share.
    rooms: [usize; Share::ALL.len()],
}

impl Lanes {
    /// `inbox` requests in all, a quarter for each lane.
    pub(crate) fn new(inbox: usize) -> Self {
        let room = (inbox / 4).max(1);
        Self { queues: Default::default(), rooms: Share::ALL.map(|share| share.of(room)) }
    }

    pub(crate) fn is_full(&self, lane: Lane) -> bool {
        self.queues[lane as usize].len() >= self.rooms[Share::Operator as usize]
    }

    /// Tickets of what waits in a lane.
    pub(crate) fn tickets(&self, lane: Lane) -> impl Iterator<Item = Ticket> {
        self.queues[lane as usize].iter().map(|input| input.ticket)
    }

    /// Queues a request, if its share of its lane has room for it; otherwise says which it was.
    pub(crate) fn push(&mut self, input: Input) -> Result<(), Ticket> {
        let queue = &mut self.queues[input.request.lane() as usize];
        if queue.len() >= self.rooms[input.share as usize] {
            return Err(input.ticket);
        }
        queue.push_back(input);
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_kernel::{Epoch, LeaseId};

    fn beat() -> Request {
        Request::Heartbeat { lease: LeaseId(1), epoch: Epoch::FIRST, via: None, asker: None }
    }

    /// How many of these fit into an inbox of 64, one after the other.
    fn fitting(lanes: &mut Lanes, request: fn() -> Request, share: Share) -> usize {
        let push = |ticket| lanes.push(Input { ticket: Ticket(ticket), request: request(), share }).ok();
        (0..100).map_while(push).count()
    }

    /// Reads filled their lane, and an operator's `status` was refused with them.
    #[test]
    fn a_flood_leaves_places_of_its_lane_to_others_and_to_operators() {
        for request in [beat, || Request::Status] {
            let mut lanes = Lanes::new(64);
            assert_eq!(fitting(&mut lanes, request, Share::Busy), 12);
            assert_eq!(fitting(&mut lanes, request, Share::Ordinary), 2);
            assert_eq!(fitting(&mut lanes, request, Share::Operator), 2);
        }
    }
}
