//! Announcements: what the engine is told of the adverts, and what follows on what it says of them.

use core::time::Duration;
use std::net::IpAddr;

use super::{Supervisor, is_carried};
use crate::adverts::Stage;
use crate::board::Standing;
use crate::clock;
use crate::engine::{Addresses, Refused};
use crate::service::Service;
use crate::timers::Timer;

/// RFC 6762 §8.3 wants two announcements at least a second apart; the engine lets none pass within one.
/// Interfaces begin to probe up to 250 ms apart.
pub(super) const SECOND_AFTER: Duration = Duration::from_millis(1_300);
/// Addresses and SRV records live 120 s and are asked for after 96; the engine does not answer for names with
/// dots, so that these are announced anew before.
const REFRESH_AFTER: Duration = Duration::from_secs(60);
/// After this without an announcement the engine is told again, then after twice as long, and so on.
const NUDGE_AFTER: Duration = Duration::from_secs(3);
const NUDGE_AFTER_MAX: Duration = Duration::from_secs(60);

impl Supervisor {
    pub(super) fn advertise(&mut self, key: u128, service: Service) {
        if self.is_closing {
            return;
        }
        if let Err(unfit) = service.check() {
            match self.adverts.get(key) {
                Some(_) => {
                    self.adverts.failed(key, unfit.to_string());
                    self.publish(key);
                }
                None => {
                    let last_error = Some(unfit.to_string());
                    self.board.set_standing(key, Standing { last_error, ..Standing::default() });
                }
            }
            return;
        }
        if let Some(leaving) = self.adverts.put(key, service) {
            self.say_farewell(leaving, None);
        }
        self.adverts.unblock();
        self.publish(key);
    }

    pub(super) fn announce_next(&mut self) {
        let Some(engine) = &self.engine else { return };
        let Some(announcement) = self.adverts.next(&self.farewells) else {
            return self.adverts.blocked().into_iter().for_each(|key| self.publish(key));
        };
        let key = announcement.key;
        match engine.announce(&announcement.service, Addresses::AsWanted, announcement.probe) {
            Ok(()) => {
                self.names_probed += u64::from(announcement.probe);
                self.adverts.told(key, announcement.service);
                self.follow_up(key);
            }
            Err(Refused::Full) => {
                self.adverts.put_back(key);
                self.pace.pause();
            }
            Err(Refused::Ended) => self.engine_ended("its thread ended"),
            Err(Refused::Unfit(why)) => self.adverts.failed(key, why),
        }
        self.publish(key);
    }

    /// Arms what must follow on a call for this advert.
    pub(super) fn follow_up(&mut self, key: u128) {
        let Some(advert) = self.adverts.get(key) else { return };
        let (serial, now) = (advert.serial, clock::now());
        match advert.stage {
            Stage::Told => {
                let wait = NUDGE_AFTER.saturating_mul(1 << advert.nudges.min(5)).min(NUDGE_AFTER_MAX);
                self.timers.arm(now + wait, Timer::Nudge(key, serial));
            }
            Stage::Announced if advert.wants_second => {
                self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
            }
            Stage::Announced | Stage::Waiting => {}
        }
    }

    pub(super) fn announced(&mut self, full_name: &str) {
        self.farewells.announced(&full_name.to_lowercase());
        let Some((key, is_news)) = self.adverts.announced(full_name) else { return };
        if is_news && let Some(advert) = self.adverts.get(key) {
            let (serial, service) = (advert.serial, &advert.wanted);
            let now = clock::now();
            if service.has_capitals() {
                self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
            }
            if service.is_escaped() {
                self.timers.arm(now + REFRESH_AFTER, Timer::Second(key, serial));
            }
        }
        self.publish(key);
    }

    pub(super) fn renamed(&mut self, original: &str, new_name: &str, interface: &str, is_host: bool) {
        if is_host {
            tracing::warn!(
                original,
                new_name,
                interface,
                "another host has the label of one of our services"
            );
            return;
        }
        let holder = self.adverts.holder(&new_name.to_lowercase());
        let Some((key, out)) = self.adverts.renamed(original, new_name) else { return };
        // It took a name of ours for another of ours, and has the records of both under it from now on.
        self.is_muddled |= holder.is_some_and(|holder| holder != key);
        if let Some(service) = out {
            // Where the name was not taken it was announced already, and is withdrawn; where it was taken it is
            // another's.
            let addresses: Vec<IpAddr> = self
                .locals
                .iter()
                .filter(|local| local.interface != interface)
                .map(|local| local.addr.ip())
                .collect();
            self.forget(service, addresses);
        }
        self.publish(key);
    }

    /// The engine announces on a new address what follows the interfaces, once; the rest is ours.
    pub(super) fn address_came(&mut self, address: IpAddr) {
        self.reachable.insert(address);
        self.look_at_interfaces();
        self.greet_who_is_back();
        self.say_what_is_owed();
        let now = clock::now();
        let local = self.locals.iter().find(|local| local.addr.ip() == address).cloned();
        let carries = |ip: IpAddr| local.as_ref().is_some_and(|local| local.carries(ip));
        for key in self.adverts.keys() {
            let Some(advert) = self.adverts.get(key) else { continue };
            let serial = advert.serial;
            if advert.wanted.ip.is_some_and(&carries) {
                self.adverts.tell_again(key);
            }
            self.timers.arm(now + SECOND_AFTER, Timer::Second(key, serial));
        }
    }

    pub(super) fn announce_again(&mut self, key: u128, serial: u64) {
        let Some(advert) = self.adverts.same(key, serial) else { return };
        if advert.stage == Stage::Announced {
            let is_escaped = advert.wanted.is_escaped();
            self.adverts.repeat(key);
            if is_escaped {
                self.timers.arm(clock::now() + REFRESH_AFTER, Timer::Second(key, serial));
            }
        }
    }

    pub(super) fn nudge(&mut self, key: u128, serial: u64) {
        let Some(advert) = self.adverts.same(key, serial) else { return };
        if advert.stage == Stage::Told {
            let is_carried = is_carried(&self.locals, &self.reachable, &advert.wanted);
            let why = if is_carried { "not announced yet" } else { "no interface in use carries it" };
            self.adverts.nudge(key, why.to_owned());
            self.publish(key);
        }
    }
}
