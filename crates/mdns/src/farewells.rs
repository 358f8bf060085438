//! Withdrawals under way: what is to be said, what was said, and who waits for it. While one lasts, its name
//! and its host are held: a goodbye and its repeat would withdraw whatever is announced under them meanwhile.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;

use tokio::sync::oneshot;

use crate::clock::Instant;
use crate::service::Service;

/// How a withdrawal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goodbye {
    /// The goodbye and its repeat have left, or nobody had been told of the service.
    Sent,
    /// They have not, or it is not known; why.
    Unsent(String),
}

/// The engine repeats a goodbye after 120 ms.
pub(crate) const REPEAT_AFTER: Duration = Duration::from_millis(130);

/// One withdrawal.
#[derive(Debug)]
pub(crate) struct Farewell {
    /// Under the name the engine has it.
    pub(crate) service: Service,
    pub(crate) how: How,
    stage: Stage,
    replies: Vec<oneshot::Sender<Goodbye>>,
    /// No interface could carry it when it was said.
    pub(crate) is_unheard: bool,
    /// It was never announced.
    is_unknown_to_all: bool,
    /// Those who waited were told that it takes too long.
    is_overdue: bool,
}

/// What the engine knows of the service, and therefore what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It has it.
    Known,
    /// It does not: an earlier process or an earlier engine announced it. It is made known as if it were to be
    /// probed for, which says nothing yet, and withdrawn before anything is.
    Unknown {
        /// The first of the two is done.
        is_introduced: bool,
    },
    /// It has it under a name that is not ours on some interface; the goodbye goes to these addresses' networks
    /// only. With none it is forgotten without a word.
    Forget {
        addresses: Vec<IpAddr>,
        /// The first of the two is done.
        is_narrowed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The engine probes for the name. Saying goodbye now could withdraw another host's service.
    Probed,
    Queued,
    Asked,
    Repeated,
    /// It was said where nobody is; it waits for an interface.
    Unheard,
}

/// All withdrawals under way.
#[derive(Debug, Default)]
pub(crate) struct Farewells {
    by_id: BTreeMap<u64, Farewell>,
    /// Those that are a service's end, by full name.
    by_name: HashMap<String, u64>,
    ever: u64,
    queue: VecDeque<u64>,
    held: HashMap<String, u32>,
    repeats: VecDeque<(Instant, u64)>,
}

impl Farewells {
    /// Begins one, or joins one of the same name that is under way.
    pub(crate) fn begin(
        &mut self,
        service: Service,
        how: How,
        is_probed: bool,
        reply: Option<oneshot::Sender<Goodbye>>,
    ) -> u64 {
        let is_forget = matches!(how, How::Forget { .. });
        let name_key = service.full_name_key();
        if !is_forget
            && let Some(id) = self.by_name.get(&name_key)
            && let Some(same) = self.by_id.get_mut(id)
        {
            same.replies.extend(reply);
            return *id;
        }
        for held in [name_key.clone(), host_key(&service)] {
            *self.held.entry(held).or_default() += 1;
        }
        self.ever += 1;
        if !is_forget {
            self.by_name.insert(name_key, self.ever);
        }
        let stage = if is_probed { Stage::Probed } else { Stage::Queued };
        let replies = reply.into_iter().collect();
        self.by_id.insert(
            self.ever,
            Farewell {
                service,
                how,
                stage,
                replies,
                is_unheard: false,
                is_unknown_to_all: false,
                is_overdue: false,
            },
        );
        if !is_probed {
            self.queue.push_back(self.ever);
        }
        self.ever
    }

    /// The service of one that is a service's end.
    pub(crate) fn last_words(&self, id: u64) -> Option<Service> {
        let farewell = self.by_id.get(&id)?;
        (!matches!(farewell.how, How::Forget { .. })).then(|| farewell.service.clone())
    }

    /// Every service that the engine may still say goodbye for.
    pub(crate) fn services(&self) -> impl Iterator<Item = Service> {
        self.by_id.values().map(|farewell| farewell.service.clone())
    }

    /// Whether something under this service's name or host is being withdrawn.
    pub(crate) fn holds(&self, service: &Service) -> bool {
        self.held.contains_key(&service.full_name_key()) || self.held.contains_key(&host_key(service))
    }

    /// The next one to be said.
    pub(crate) fn next(&mut self) -> Option<(u64, &mut Farewell)> {
        let id = self.queue.pop_front()?;
        self.by_id.get_mut(&id).map(|farewell| (id, farewell))
    }

    /// The engine's queue was full: the same one again.
    pub(crate) fn put_back(&mut self, id: u64) {
        self.queue.push_front(id);
    }

    /// The engine was asked and will answer.
    pub(crate) fn asked(&mut self, id: u64) {
        if let Some(farewell) = self.by_id.get_mut(&id) {
            farewell.stage = Stage::Asked;
        }
    }

    /// The goodbye has left; the repeat will have at `due`.
    pub(crate) fn said(&mut self, id: u64, due: Instant) {
        if let Some(farewell) = self.by_id.get_mut(&id) {
            farewell.stage = Stage::Repeated;
            self.repeats.push_back((due, id));
        }
    }

    /// The engine did not have it after all.
    pub(crate) fn unknown(&mut self, id: u64) {
        let Some(farewell) = self.by_id.get_mut(&id) else { return };
        match farewell.how {
            How::Known => {
                farewell.how = How::Unknown { is_introduced: false };
                farewell.stage = Stage::Queued;
                self.queue.push_back(id);
            }
            // Both were told in one go and it is gone nevertheless: nothing is left to withdraw.
            How::Unknown { .. } | How::Forget { .. } => {
                self.end(id, &Goodbye::Sent);
            }
        }
    }

    /// Probing has ended for this full name.
    pub(crate) fn announced(&mut self, full_name_key: &str) {
        if let Some(id) = self.by_name.get(full_name_key) {
            self.stop_waiting(*id);
        }
    }

    /// Probing has ended, or takes too long.
    pub(crate) fn stop_waiting(&mut self, id: u64) {
        if let Some(farewell) = self.by_id.get_mut(&id).filter(|farewell| farewell.stage == Stage::Probed) {
            farewell.stage = Stage::Queued;
            self.queue.push_back(id);
        }
    }

    /// When the next repeat is due.
    pub(crate) fn next_repeat(&self) -> Option<Instant> {
        self.repeats.front().map(|(due, _)| *due)
    }

    /// Those whose repeat was due by now.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<u64> {
        let count = self.repeats.iter().take_while(|(due, _)| *due <= now).count();
        self.repeats.drain(..count).map(|(_, id)| id).collect()
    }

    /// Remembers whether it was never announced.
    pub(crate) fn set_unknown_to_all(&mut self, id: u64, is_unknown_to_all: bool) {
        if let Some(farewell) = self.by_id.get_mut(&id) {
            farewell.is_unknown_to_all = is_unknown_to_all;
        }
    }

    /// Whether nobody can have heard of it.
    pub(crate) fn is_unknown_to_all(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|farewell| farewell.is_unknown_to_all)
    }

    /// Whether a goodbye and its repeat had somebody to go to.
    pub(crate) fn is_unheard(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|farewell| farewell.is_unheard)
    }

    /// Nobody has heard this one: it is said again when somebody can.
    pub(crate) fn wait_to_be_heard(&mut self, id: u64) {
        if let Some(farewell) = self.by_id.get_mut(&id) {
            farewell.stage = Stage::Unheard;
        }
    }

    /// Those that nobody has heard are said again; the engine knows none of them any more.
    pub(crate) fn say_unheard(&mut self, is_carried: impl Fn(&Service) -> bool) {
        for (id, farewell) in &mut self.by_id {
            if farewell.stage == Stage::Unheard && is_carried(&farewell.service) {
                farewell.how = How::Unknown { is_introduced: false };
                farewell.stage = Stage::Queued;
                self.queue.push_back(*id);
            }
        }
    }

    /// Withdrawals under way.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether it is a service's end rather than a change of its name after a conflict.
    pub(crate) fn is_end(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|farewell| !matches!(farewell.how, How::Forget { .. }))
    }

    /// One is over.
    pub(crate) fn end(&mut self, id: u64, goodbye: &Goodbye) {
        let Some(farewell) = self.by_id.remove(&id) else { return };
        let name_key = farewell.service.full_name_key();
        if self.by_name.get(&name_key) == Some(&id) {
            self.by_name.remove(&name_key);
        }
        for held in [name_key, host_key(&farewell.service)] {
            if let Some(count) = self.held.get_mut(&held) {
                *count -= 1;
                if *count == 0 {
                    self.held.remove(&held);
                }
            }
        }
        answer(farewell.replies, goodbye);
    }

    /// Those who wait are told why it has not been said yet. It is still said when it can be.
    pub(crate) fn answer_early(&mut self, id: u64, why: &str) {
        if let Some(farewell) = self.by_id.get_mut(&id) {
            farewell.is_overdue = true;
            answer(core::mem::take(&mut farewell.replies), &Goodbye::Unsent(why.to_owned()));
        }
    }

    /// The engine has ended: what was not confirmed is said anew by the next one, which knows none of them.
    pub(crate) fn engine_ended(&mut self) {
        self.queue.clear();
        self.repeats.clear();
        let ids: Vec<u64> = self.by_id.keys().copied().collect();
        for id in ids {
            let Some(farewell) = self.by_id.get_mut(&id) else { continue };
            if matches!(farewell.how, How::Forget { .. }) {
                self.end(id, &Goodbye::Sent);
                continue;
            }
            farewell.how = How::Unknown { is_introduced: false };
            farewell.stage = Stage::Queued;
            self.queue.push_back(id);
        }
    }

    /// Whether nothing is under way that can still be waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.by_id.values().all(|farewell| farewell.is_overdue)
    }

    /// Whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Whether one can be said now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.queue.is_empty()
    }
}

fn answer(replies: Vec<oneshot::Sender<Goodbye>>, goodbye: &Goodbye) {
    for reply in replies {
        // Who no longer waits need not be told.
        let _ = reply.send(goodbye.clone());
    }
}

fn host_key(service: &Service) -> String {
    format!("{}.local.", service.host.to_lowercase())
}
