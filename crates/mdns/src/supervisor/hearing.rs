//! What we hear ourselves, because the engine does not: it compares names as it escapes them with names as they
//! are on the wire, so that of names with dots it neither answers questions nor notices that another host has
//! them, nor can it ask for them. And that another host withdraws what is ours.

use core::time::Duration;

use super::Supervisor;
use crate::adverts::Stage;
use crate::clock;
use crate::ear::Ear;
use crate::timers::Timer;
use crate::wire::{ANY, Message, Name, SRV, Says, TXT};

/// SRV records live 120 s and are to be asked for after 96.
const ASK_EVERY: Duration = Duration::from_secs(40);
/// RFC 6762 §6: no record more than once a second, but in answer to probes, which come every 250 ms.
const ANSWER_AGAIN_AFTER: Duration = Duration::from_millis(200);

impl Supervisor {
    /// Opens the ear on the interfaces in use.
    pub(super) fn open_ear(&mut self) {
        self.ear = match Ear::open(&self.locals, self.options.port) {
            Ok(ear) => Some(ear),
            Err(error) => {
                tracing::warn!(%error, "names with dots cannot be asked for or defended");
                None
            }
        };
    }

    /// Takes a message of the network.
    pub(super) fn overhear(&mut self, message: &Message) {
        if !message.is_response {
            for (name, kind) in &message.questions {
                if [SRV, TXT, ANY].contains(kind) {
                    self.answer(name);
                }
            }
            return;
        }
        for record in &message.records {
            match &record.says {
                Says::Server(host) if record.ttl > 0 => self.see_server(&record.name, host),
                Says::Pointer(target) if record.ttl == 0 => self.rescue(target),
                Says::Server(_) | Says::Pointer(_) | Says::Other => {}
            }
        }
    }

    /// Somebody asks for a service that the engine does not answer for, perhaps because he wants its name.
    fn answer(&mut self, name: &Name) {
        let Some(key) = self.adverts.holder(&name.key()) else { return };
        let now = clock::now();
        let Some(service) = self.adverts.answer_for(key, now, ANSWER_AGAIN_AFTER) else { return };
        if let Some(ear) = &self.ear {
            ear.answer(&service);
        }
    }

    /// Somebody has a service of a name we probe for.
    fn see_server(&mut self, name: &Name, host: &Name) {
        let Some(key) = self.adverts.holder(&name.key()) else { return };
        let is_contested = self.adverts.get(key).is_some_and(|advert| {
            advert.is_probed()
                && advert.wanted.is_escaped()
                && host.key() != Name::new(&advert.wanted.host, "local").key()
        });
        if is_contested && let Some(service) = self.adverts.give_way(key) {
            self.forget(service, Vec::new());
            self.publish(key);
        }
    }

    /// Somebody says that a service of ours is gone.
    fn rescue(&mut self, target: &Name) {
        let Some(key) = self.adverts.holder(&target.key()) else { return };
        let Some(advert) = self.adverts.get(key) else { return };
        if advert.stage == Stage::Announced {
            let serial = advert.serial;
            tracing::warn!(key, "another host withdrew a service of ours: it is announced again");
            self.adverts.repeat(key);
            // What was announced within this second the engine holds back.
            self.timers.arm(clock::now() + super::announcing::SECOND_AFTER, Timer::Second(key, serial));
        }
    }

    /// Asks for services of others that the engine cannot ask for, so that they do not expire.
    pub(super) fn ask_for_escaped(&mut self) {
        self.timers.arm(clock::now() + ASK_EVERY, Timer::Ask);
        let Some(ear) = &self.ear else { return };
        let mut questions = Vec::new();
        for shelf in self.shelves.all() {
            let rest = format!("{}.local", shelf.wanted().service_type());
            for instance in shelf.escaped_names() {
                questions.extend([SRV, TXT].map(|kind| (Name::new(&instance, &rest), kind)));
            }
        }
        ear.ask(&questions);
    }
}
