//! No id or fence of a lost frame is given again: a position that anybody was told of stands for one command
//! for ever. (kernel.md §7 "Torn tail"; DESIGN decision 4)

use super::{Said, Scene, Verdict};
use crate::network::CallId;
use crate::violation::Violation;
use std::collections::BTreeMap;
use tenure_engine::{Answer, Out, Request};
use tenure_kernel::{Action, Lsn};

/// Which call an event was told to, by log and position.
#[derive(Default)]
pub(super) struct Positions(BTreeMap<(u32, Lsn), CallId>);

impl Positions {
    pub(super) fn said(&mut self, scene: &Scene<'_>, said: &Said<'_>) -> Verdict {
        let (Out::Answer(_, answer), Some(ask)) = (said.out, said.ask) else { return Ok(()) };
        let Request::Submit(submit) = &ask.request else { return Ok(()) };
        let lsn = match (answer, &*submit.action) {
            // Bringing back what fell silent writes no event of its own.
            (_, Action::Revive(_)) => return Ok(()),
            (Answer::Lease(answer), _) if !answer.replayed => answer.lsn,
            (Answer::Done { lsn, replayed: false }, _) => *lsn,
            _ => return Ok(()),
        };
        match self.0.insert((scene.tag, lsn), ask.call) {
            Some(other) if other != ask.call => {
                let text =
                    format!("position {lsn} was told to call {} and again to call {}", other.0, ask.call.0);
                Err(Violation::new("positions_never_reused", text))
            }
            Some(_) | None => Ok(()),
        }
    }
}
