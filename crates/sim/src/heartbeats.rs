//! How clients prove that they live: most in good time, some around the very end.

use crate::clients::Hand;
use crate::happening::Happening;
use crate::network::Purpose;
use crate::world::World;
use tenure_engine::Request;
use tenure_kernel::{Face, LeaseId, Mode};

impl World {
    /// Heartbeats for what would otherwise run out before the next act or two.
    pub(crate) fn prove_life(&mut self, client: usize) {
        let aged = self.aged();
        let soon = 2 * self.profile.act_ms_max;
        let hands = self.clients[client].hands.clone();
        for hand in hands {
            let due = hand.valid_until.is_none_or(|until| until < aged + soon.max(hand.ttl_ms / 2));
            if hand.mode == Mode::Heartbeat
                && !hand.reserved
                && !hand.stopped
                && hand.at_last.is_none()
                && due
                && self.random.chance(900)
            {
                self.heartbeat(client, &hand);
            }
            let over = hand.valid_until.is_some_and(|until| until + 20_000 < aged);
            if over {
                self.clients[client].stop(hand.tag, hand.lease);
            }
        }
        if let Some(by_hand) = self.clients[client].session.clone()
            && by_hand.confirmed.is_some()
            && self.random.chance(500)
        {
            let request =
                Request::SessionHeartbeat { session: by_hand.session, seen: by_hand.seen, asker: None };
            self.say_plain(client, request, Purpose::SessionHeartbeat(by_hand.session));
        }
    }

    /// Who proves life only when its lease is nearly over does so around the very end.
    pub(crate) fn plan_last_beat(&mut self, client: usize, tag: u32, lease: LeaseId) {
        let aged = self.aged();
        let Some(hand) = self.clients[client].hand(tag, lease) else { return };
        if let (Some(grace_ms), Some(until), Mode::Heartbeat) = (hand.at_last, hand.valid_until, hand.mode) {
            let around = self.random.below(24);
            let wait = (until + grace_ms + around).saturating_sub(aged + 12);
            self.at(wait, Happening::LastBeat { client, tag, lease });
        }
    }

    pub(crate) fn last_beat(&mut self, client: usize, tag: u32, lease: LeaseId) {
        if self.clients[client].dead {
            return;
        }
        let pause = self.clients[client].paused_until.saturating_sub(self.now);
        if pause > 0 {
            return self.at(pause, Happening::LastBeat { client, tag, lease });
        }
        if let Some(hand) = self.clients[client].hand(tag, lease).cloned()
            && !hand.stopped
        {
            self.heartbeat(client, &hand);
        }
    }

    fn heartbeat(&mut self, client: usize, hand: &Hand) {
        // What another face keeps can be kept by the native one too.
        if hand.face == Face::Streams && self.random.chance(850) {
            return self.timely_heartbeat(client, hand);
        }
        let via = self.clients[client].connection.as_ref().map(|connection| connection.session);
        let request = Request::Heartbeat { lease: hand.lease, epoch: hand.epoch, via, asker: None };
        self.say(client, hand.tag, request, Purpose::Heartbeat(hand.lease, hand.epoch));
    }

    /// The heartbeat of a stream, whose holder need not know the epoch.
    fn timely_heartbeat(&mut self, client: usize, hand: &Hand) {
        let work = self.profile.work;
        let epoch = self.random.chance(600).then_some(hand.epoch);
        let request = Request::TimelyHeartbeat { lease: hand.lease, epoch, asker: None };
        // Without an epoch it counts for the holder of that moment: where leases change hands, no client may
        // believe such an answer.
        let believes = epoch.is_some() || !(work.rebinds || work.take_over);
        let purpose = if believes { Purpose::Heartbeat(hand.lease, hand.epoch) } else { Purpose::Other };
        self.say(client, hand.tag, request, purpose);
    }
}
