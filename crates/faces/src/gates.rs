//! What has to happen between a revoke and its reclaim, brought to the face whose lease it is.

use crate::dispatch::Faces;
use tenure_engine::kernel::Face;
use tenure_engine::{Answer, LeaseFound, Request};

/// Leases read at once.
const PAGE: usize = 500;

impl Faces {
    /// Passes every gate that is opened, until the daemon stops.
    pub async fn keep_gates(self) {
        let Some(mut gates) = self.switchboard().take_gates() else { return };
        let mut opened = Vec::new();
        while gates.recv_many(&mut opened, PAGE).await > 0 {
            let reads = opened.drain(..).map(Request::Read).collect();
            for answer in self.ask_until_heard(reads).await {
                if let Answer::Read(read) = answer
                    && let LeaseFound::Live(lease) = read.lease
                {
                    match lease.policy.face {
                        Face::Registrations => self.pass_registration_gate(&lease),
                        Face::Streams => self.pass_stream_gate(&lease),
                        // They have none; its time would run out.
                        Face::Leases | Face::Polling => {}
                    }
                }
            }
        }
    }
}
