//! Withdrawals: said at once unless the name is still being probed for, confirmed after the repeat, and said
//! again by the next engine if this one dies meanwhile.

use core::time::Duration;
use std::net::IpAddr;

use tokio::sync::oneshot;

use super::{REMEMBERED_FOR, Report, Supervisor, is_carried};
use crate::adverts::Leaving;
use crate::board::Condition;
use crate::clock;
use crate::engine::{Addresses, Refused};
use crate::farewells::{Goodbye, How};
use crate::pace::TICK;
use crate::service::Service;
use crate::timers::Timer;

/// Probing takes at most a second unless it is contested.
const PROBED_WITHIN: Duration = Duration::from_millis(2_500);
/// Goodbyes kept for an interface that is away.
const OWED_MAX: usize = 10_000;
/// The engine's gate waits ten seconds; the answer why it was in vain comes before.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

impl Supervisor {
    pub(super) fn withdraw(&mut self, key: u128, service: Service, reply: oneshot::Sender<Goodbye>) {
        self.board.forget(key);
        self.names_told.remove(&key);
        if let Some((leaving, _)) = self.adverts.remove(key) {
            self.adverts.unblock();
            self.say_farewell(leaving, Some(reply));
        } else if let Err(unfit) = service.check() {
            let _ = reply.send(Goodbye::Unsent(unfit.to_string()));
        } else {
            self.say_farewell(Leaving::unknown(service), Some(reply));
        }
    }

    pub(super) fn say_farewell(&mut self, leaving: Leaving, reply: Option<oneshot::Sender<Goodbye>>) {
        let how = if leaving.is_known { How::Known } else { How::Unknown { is_introduced: false } };
        // Where no interface carries it nobody is asked for the name.
        let is_probed = leaving.is_probed && is_carried(&self.locals, &self.reachable, &leaving.service);
        let id = self.farewells.begin(leaving.service, how, is_probed, reply);
        self.farewells.set_unknown_to_all(id, !leaving.was_announced);
        let now = clock::now();
        self.timers.arm(now + ANSWER_WITHIN, Timer::AnswerDue(id));
        if is_probed {
            self.timers.arm(now + PROBED_WITHIN, Timer::ProbeOver(id));
        }
    }

    /// Has the engine forget a service whose name is another host's; goodbyes go to these addresses' networks only.
    pub(super) fn forget(&mut self, service: Service, addresses: Vec<IpAddr>) {
        let how = How::Forget { addresses, is_narrowed: false };
        let id = self.farewells.begin(service, how, false, None);
        self.timers.arm(clock::now() + ANSWER_WITHIN, Timer::AnswerDue(id));
    }

    pub(super) fn close(&mut self, reply: oneshot::Sender<Vec<(u128, Goodbye)>>) {
        if self.closing.is_some() {
            let _ = reply.send(Vec::new());
            return;
        }
        self.is_closing = true;
        self.closing = Some(reply);
        let mut answers = Vec::new();
        for key in self.adverts.keys() {
            let Some((leaving, _)) = self.adverts.remove(key) else { continue };
            let (reply, answer) = oneshot::channel();
            self.board.forget(key);
            self.say_farewell(leaving, Some(reply));
            answers.push((key, answer));
        }
        let report = self.report.clone();
        tokio::spawn(async move {
            let mut collected = Vec::with_capacity(answers.len());
            for (key, answer) in answers {
                let goodbye = answer.await.unwrap_or_else(|_| Goodbye::Unsent("not answered".to_owned()));
                collected.push((key, goodbye));
            }
            let _ = report.send(Report::Collected(collected));
        });
    }

    pub(super) fn say_next_farewell(&mut self) {
        let Some(engine) = &self.engine else { return };
        let Some((id, farewell)) = self.farewells.next() else { return };
        farewell.is_unheard = !is_carried(&self.locals, &self.reachable, &farewell.service);
        let introduced = match &mut farewell.how {
            How::Known => Ok(()),
            How::Unknown { is_introduced: true } | How::Forget { is_narrowed: true, .. } => Ok(()),
            How::Unknown { is_introduced } => {
                engine.announce(&farewell.service, Addresses::AsWanted, true).map(|()| *is_introduced = true)
            }
            How::Forget { addresses, is_narrowed } => engine
                .announce(&farewell.service, Addresses::Only(addresses), true)
                .map(|()| *is_narrowed = true),
        };
        match introduced.and_then(|()| engine.withdraw(&farewell.service)) {
            Ok(withdrawal) => {
                self.names_probed += u64::from(farewell.how != How::Known);
                self.farewells.asked(id);
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    let withdrawn = withdrawal.answer().await;
                    let _ = report.send(Report::Withdrawn { engine, id, withdrawn });
                });
            }
            Err(Refused::Full) => {
                self.farewells.put_back(id);
                self.pace.pause();
            }
            Err(Refused::Ended) => {
                self.farewells.put_back(id);
                self.engine_ended("its thread ended");
            }
            Err(Refused::Unfit(why)) => self.end_farewell(id, Goodbye::Unsent(why)),
        }
    }

    pub(super) fn confirm(&mut self, ids: Vec<u64>) {
        for id in ids {
            // Where nobody was told by us there is most likely nobody to tell; if there is, it is said later.
            if !self.farewells.is_unheard(id) || self.farewells.is_unknown_to_all(id) {
                self.end_farewell(id, Goodbye::Sent);
            } else if self.may_be_heard_later(id) {
                self.farewells.wait_to_be_heard(id);
            } else {
                self.end_farewell(id, Goodbye::Unsent("no interface in use carries it".to_owned()));
            }
        }
        // An interface may have come back meanwhile.
        self.farewells.say_unheard(|service| is_carried(&self.locals, &self.reachable, service));
    }

    /// Whether somebody who was told of a service may come back and be told of its end.
    fn may_be_heard_later(&self, id: u64) -> bool {
        let is_known_there = |service: Service| {
            let carries = |ip| self.away.iter().any(|(_, local)| local.carries(ip));
            service.ip.is_none_or(carries)
        };
        !self.is_closing
            && self.farewells.len() < OWED_MAX
            && self.farewells.last_words(id).is_some_and(is_known_there)
    }

    /// Those who wait hear that it takes too long, before they give up by themselves.
    pub(super) fn answer_early(&mut self, id: u64) {
        let why = match self.board.health().condition {
            Condition::Up => "it takes too long; it is still tried".to_owned(),
            Condition::Down { error, .. } => format!("mdns is down: {error}"),
        };
        self.farewells.answer_early(id, &why);
    }

    /// Says again what was said while an interface was away.
    pub(super) fn say_what_is_owed(&mut self) {
        let now = clock::now();
        for (since, service) in core::mem::take(&mut self.owed) {
            // Wanted again, here: the announcement tells of it.
            let is_wanted = self.adverts.holder(&service.full_name_key()).is_some();
            if !is_wanted && since + REMEMBERED_FOR > now {
                self.say_farewell(Leaving::unknown(service), None);
            }
        }
    }

    pub(super) fn end_farewell(&mut self, id: u64, goodbye: Goodbye) {
        // Also what only an earlier process may have announced.
        if (!self.away.is_empty() || self.farewells.is_unheard(id))
            && self.owed.len() < OWED_MAX
            && let Some(service) = self.farewells.last_words(id)
        {
            self.owed.push((clock::now(), service));
        }
        // Counted before anyone is told, who may look at once.
        if goodbye == Goodbye::Sent && self.farewells.is_end(id) {
            self.board.note(|health| health.goodbyes_sent += 1);
        }
        self.farewells.end(id, &goodbye);
        self.adverts.unblock();
    }

    /// The repeats were due; an answer of the thread says that it was not stuck before them.
    pub(super) fn ask_whether_repeated(&mut self, ids: Vec<u64>) {
        let Some(engine) = &self.engine else { return };
        match engine.pulse() {
            Ok(pulse) => {
                let (report, engine) = (self.report.clone(), self.incarnation);
                tokio::spawn(async move {
                    let is_alive = pulse.answer().await;
                    let _ = report.send(Report::Confirmed { engine, ids, is_alive });
                });
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Full | Refused::Unfit(_)) => {
                let again = clock::now() + TICK;
                ids.into_iter().for_each(|id| self.farewells.said(id, again));
            }
        }
    }
}
