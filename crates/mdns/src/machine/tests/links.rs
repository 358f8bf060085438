//! Links that come and go, that are blocked, and that wake with the machine; and the goodbyes that wait for them. A goodbye
//! that is late is said where no other host has the name by then.

use super::*;

/// One machine on links of its own, and what a stranger says there.
struct Solo {
    now: Instant,
    machine: Machine,
    /// Names and kinds of records that were sent with a TTL of 0, by link.
    goodbyes: Vec<(LinkId, String, u16)>,
    withdrawn: Vec<(u64, Goodbye)>,
    /// Links whose sockets take nothing.
    blocked: BTreeSet<LinkId>,
    /// When packets left, and on which link.
    left: Vec<(Instant, LinkId)>,
}

/// The second link.
fn eth1(id: u64) -> Link {
    Link { id: LinkId(id), interface: "eth1".to_owned(), index: 3, ..link(0) }
}

impl Solo {
    fn new(links: impl IntoIterator<Item = Link>) -> Self {
        let now = clock::now();
        let mut machine = Machine::new(PORT, 1);
        links.into_iter().for_each(|link| machine.link_up(now, link));
        Self {
            now,
            machine,
            goodbyes: Vec::new(),
            withdrawn: Vec::new(),
            blocked: BTreeSet::new(),
            left: Vec::new(),
        }
    }

    /// The only link of a service is away, and whoever withdrew the service was answered.
    fn with_late_goodbye() -> Self {
        let mut solo = Self::new([link(0)]);
        solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
        solo.settle();
        solo.machine.link_down(solo.now, LinkId(1));
        solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
        solo.settle();
        assert!(matches!(&*solo.withdrawn, [(1, Goodbye::Unsent(_))]), "{:?}", solo.withdrawn);
        solo
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.machine.tick(self.now);
            while let Some(transmit) = self.machine.next_transmit(self.now) {
                if self.blocked.contains(&transmit.link) {
                    self.machine.not_taken(self.now, transmit);
                    continue;
                }
                self.left.push((self.now, transmit.link));
                self.machine.transmitted(self.now, transmit.link, &transmit.goodbyes, true);
                let message = Message::read(&transmit.bytes).expect("what we write can be read");
                for record in message.answers.iter().filter(|record| record.ttl == 0) {
                    let name = record.name.to_string();
                    self.goodbyes.push((transmit.link, name, record.data.kind()));
                }
            }
            for event in self.machine.take_events() {
                if let Event::Withdrawn(token, goodbye) = event {
                    self.withdrawn.push((token, goodbye));
                }
            }
            match self.machine.next_due(self.now).filter(|due| *due <= until) {
                Some(due) => self.now = due.max(self.now),
                None => break,
            }
        }
        self.now = until;
    }

    fn settle(&mut self) {
        self.run(Duration::from_secs(10));
    }

    /// Another host says that it has the name.
    fn claim(&mut self, link: u64) {
        let conflict = response(vec![server_of_web()]).write().expect("it fits");
        self.machine.receive(self.now, LinkId(link), STRANGER, &conflict);
    }

    /// Goodbyes for a service.
    fn goodbyes_on(&self, link: u64) -> usize {
        self.goodbyes.iter().filter(|(on, _, kind)| *on == LinkId(link) && *kind == PTR).count()
    }
}

/// The thread waited a quarter of a second for each packet of the link that took none, with whatever was to leave on others.
#[test]
fn a_link_that_takes_nothing_delays_no_other_and_is_begun_anew_when_it_takes_packets() {
    const MANY: u128 = 300;
    let packets_of_the_first = |is_blocked: bool| {
        let mut solo = Solo::new([link(0), eth1(2)]);
        (1..=MANY).for_each(|key| solo.machine.advertise(solo.now, key, named(0, key, &format!("{key}"))));
        let began = solo.now;
        solo.blocked.extend(is_blocked.then_some(LinkId(2)));
        let mut most = 0;
        for _ in 0..100 {
            solo.run(Duration::from_millis(100));
            most = most.max(solo.machine.load().packets);
        }
        let of_first = solo.left.iter().filter(|(_, link)| *link == LinkId(1));
        let times: Vec<Duration> = of_first.map(|(at, _)| *at - began).collect();
        (solo, times, most)
    };
    let (_, free, _) = packets_of_the_first(false);
    let (mut solo, times, most) = packets_of_the_first(true);
    assert_eq!(times, free);
    assert!(most < 400, "{most} packets wait");
    assert_eq!(solo.machine.load().packets, 0, "what waited for too long is dropped");
    // It is heard everywhere again, and blocked again: withdrawals are heard at once where packets leave.
    let heard = solo.left.len();
    solo.blocked.clear();
    solo.machine.takes_again(solo.now, LinkId(2));
    solo.settle();
    assert!(solo.left[heard..].iter().filter(|(_, link)| *link == LinkId(2)).count() >= free.len());
    solo.blocked.insert(LinkId(2));
    let (began, heard) = (solo.now, solo.left.len());
    for key in 1..=MANY {
        let token = u64::try_from(key).expect("small keys");
        solo.machine.withdraw(solo.now, key, named(0, key, &format!("{key}")), token);
    }
    solo.run(Duration::from_secs(1));
    assert_eq!(solo.goodbyes_on(1), 2 * 300);
    let last = solo.left[heard..].last().expect("they left").0 - began;
    assert!(last < Duration::from_millis(500), "{last:?}");
    solo.settle();
    assert_eq!(solo.withdrawn.len(), 300);
    assert!(solo.withdrawn.iter().all(|(_, goodbye)| *goodbye == Goodbye::Sent));
    // Late goodbyes leave on the link once it takes packets.
    assert_eq!(solo.goodbyes_on(2), 0);
    solo.blocked.clear();
    solo.machine.takes_again(solo.now, LinkId(2));
    solo.settle();
    assert_eq!(solo.goodbyes_on(2), 2 * 300);
}

#[test]
fn a_socket_that_takes_nothing_for_a_moment_loses_no_packet_and_no_order() {
    let said = |is_blocked: bool| {
        let mut solo = Solo::new([link(0)]);
        (1..=20).for_each(|key| solo.machine.advertise(solo.now, key, named(0, key, &format!("{key}"))));
        for _ in 0..30 {
            solo.blocked.extend(is_blocked.then_some(LinkId(1)));
            solo.run(Duration::from_millis(100));
            solo.blocked.clear();
            solo.machine.takes_again(solo.now, LinkId(1));
            solo.run(Duration::from_millis(100));
        }
        solo.left.len()
    };
    assert_eq!(said(true), said(false));
}

/// After sleep all links are probed again. The other link never heard that the name was given up.
#[test]
fn a_name_that_is_lost_on_one_link_is_withdrawn_on_another_once_it_has_been_probed_there() {
    let mut solo = Solo::new([link(0), eth1(2)]);
    solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
    solo.settle();
    solo.machine.woke(solo.now);
    solo.claim(1);
    solo.settle();
    assert_eq!((solo.goodbyes_on(1), solo.goodbyes_on(2)), (0, 2));
}

/// The goodbye was sent at once when the link was back, and peers lost the service of the host that had the name by then.
#[test]
fn a_goodbye_that_waited_for_its_link_does_not_take_the_name_from_a_host_that_has_it_now() {
    for is_taken in [true, false] {
        let mut world = World::new(3, 5);
        world.advertise(0, 1, "web");
        world.run(Duration::from_secs(10));
        world.unplug(0);
        world.withdraw(0, 1);
        world.run(Duration::from_secs(10));
        if is_taken {
            world.advertise(1, 2, "web");
            world.run(Duration::from_secs(10));
        }
        world.plug_in(0);
        world.run(Duration::from_secs(10));
        let goodbyes = world.goodbyes.get(&("_http._tcp.local".to_owned(), PTR)).copied().unwrap_or(0);
        let removals = if is_taken { Vec::new() } else { vec!["web".to_owned()] };
        assert_eq!((goodbyes, &world.hosts[2].removals), (2 - 2 * usize::from(is_taken), &removals));
        assert_eq!(world.seen(2).get("web"), is_taken.then_some(&2_002));
    }
}

/// As above, where another link heard the goodbye in time.
#[test]
fn a_goodbye_that_is_owed_to_a_link_does_not_take_the_name_from_a_host_that_has_it_now() {
    for is_taken in [true, false] {
        let mut solo = Solo::new([link(0), eth1(2)]);
        solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
        solo.settle();
        solo.machine.link_down(solo.now, LinkId(2));
        solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
        solo.settle();
        assert_eq!(solo.withdrawn, [(1, Goodbye::Sent)]);
        solo.machine.link_up(solo.now, eth1(3));
        solo.run(Duration::from_millis(300));
        if is_taken {
            solo.claim(3);
        }
        solo.settle();
        assert_eq!((solo.goodbyes_on(1), solo.goodbyes_on(3)), (2, if is_taken { 0 } else { 2 }));
    }
}

#[test]
fn what_an_earlier_process_announced_is_withdrawn_unless_another_host_has_it_now() {
    for is_taken in [true, false] {
        let mut world = World::new(3, 5);
        if is_taken {
            world.advertise(1, 2, "web");
        }
        world.run(Duration::from_secs(10));
        world.hosts[0].machine.withdraw(world.now, 1, named(0, 1, "web"), 1);
        world.run(Duration::from_secs(10));
        let goodbyes = world.goodbyes.get(&("_http._tcp.local".to_owned(), PTR)).copied().unwrap_or(0);
        assert_eq!(goodbyes, if is_taken { 0 } else { 2 });
        assert_eq!(world.hosts[2].removals, [""; 0]);
        let lost = Goodbye::Unneeded("another host has its name".to_owned());
        assert_eq!(world.hosts[0].withdrawn, [(1, if is_taken { lost } else { Goodbye::Sent })]);
    }
}

/// It counted as sent.
#[test]
fn a_goodbye_that_no_host_has_to_hear_is_not_reported_as_sent() {
    let mut solo = Solo::new([]);
    solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
    solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
    solo.machine.withdraw(solo.now, 2, named(0, 2, "unknown"), 2);
    solo.settle();
    let unneeded = |why: &str| Goodbye::Unneeded(why.to_owned());
    assert_eq!(
        solo.withdrawn,
        [(1, unneeded("it was not announced")), (2, unneeded("no interface in use carries it"))]
    );
    solo.machine.link_up(solo.now, link(0));
    solo.machine.advertise(solo.now, 3, named(0, 3, "here"));
    solo.settle();
    solo.machine.withdraw(solo.now, 4, named(0, 4, "here"), 4);
    solo.settle();
    assert_eq!(solo.withdrawn[2..], [(4, unneeded("its name is another registration's"))]);
}

#[test]
fn a_withdrawal_of_what_is_being_withdrawn_already_is_answered_when_that_is_over() {
    let mut solo = Solo::with_late_goodbye();
    solo.machine.link_up(solo.now, link(0));
    solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 2);
    solo.settle();
    assert_eq!(solo.withdrawn[1..], [(2, Goodbye::Sent)]);
    assert_eq!(solo.goodbyes_on(1), 2);
}

/// The goodbye was said on the link that was there first, such as a container's bridge, and the network never heard it.
#[test]
fn what_an_earlier_process_announced_is_withdrawn_on_each_link_that_comes_after_the_start() {
    for is_first_there in [true, false] {
        let mut solo = Solo::new(is_first_there.then(|| eth1(2)));
        solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
        solo.settle();
        if !is_first_there {
            solo.machine.link_up(solo.now, eth1(2));
            solo.settle();
        }
        let v6 = Link { id: LinkId(3), family: Family::V6, ..link(0) };
        // While the first is still being probed on.
        solo.machine.link_up(solo.now, link(0));
        solo.run(Duration::from_millis(500));
        solo.machine.link_up(solo.now, v6);
        solo.settle();
        assert_eq!([1, 2, 3].map(|link| solo.goodbyes_on(link)), [2; 3], "{is_first_there}");
        // Once is enough.
        solo.machine.link_down(solo.now, LinkId(1));
        solo.machine.link_up(solo.now, Link { id: LinkId(4), ..link(0) });
        solo.settle();
        assert_eq!(solo.goodbyes_on(4), 0);
        // Hosts have forgotten it by now.
        solo.run(2 * HOUR);
        solo.machine.link_up(solo.now, Link { id: LinkId(5), interface: "eth2".to_owned(), ..link(0) });
        solo.settle();
        assert_eq!(solo.goodbyes_on(5), 0);
    }
}

/// Its link was there before its address, as with DHCP: the goodbye was said nowhere.
#[test]
fn what_is_owed_waits_for_the_address_of_its_link() {
    let mut solo = Solo::new([]);
    let service = Service { ip: Some([198, 51, 100, 50].into()), ..named(0, 1, "web") };
    solo.machine.withdraw(solo.now, 1, service, 1);
    solo.machine.link_up(solo.now, link(0));
    solo.settle();
    assert_eq!(solo.goodbyes_on(1), 0);
    let (ip, netmask) = (Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(255, 255, 255, 0));
    let addresses = vec![IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen: 24, broadcast: None })];
    solo.machine.link_changed(solo.now, Link { addresses, ..link(0) });
    solo.settle();
    assert_eq!(solo.goodbyes_on(1), 2);
}

/// The first link of an interface that was back heard it, and hosts of the other family did not.
#[test]
fn what_is_owed_to_an_interface_is_said_in_both_families() {
    let v6 = |id| Link { id: LinkId(id), family: Family::V6, ..eth1(0) };
    let mut solo = Solo::new([link(0), eth1(2), v6(3)]);
    solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
    solo.settle();
    solo.machine.link_down(solo.now, LinkId(2));
    solo.machine.link_down(solo.now, LinkId(3));
    solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
    solo.settle();
    solo.machine.link_up(solo.now, eth1(4));
    solo.machine.link_up(solo.now, v6(5));
    solo.settle();
    assert_eq!([1, 4, 5].map(|link| solo.goodbyes_on(link)), [2; 3]);
}

#[test]
fn a_name_that_was_given_up_is_withdrawn_on_a_link_that_was_away_and_its_host_stays() {
    let mut solo = Solo::new([link(0), eth1(2)]);
    solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
    solo.settle();
    solo.machine.link_down(solo.now, LinkId(2));
    // The first claim has the name probed for.
    (0..2).for_each(|_| solo.claim(1));
    solo.settle();
    solo.machine.link_up(solo.now, eth1(3));
    solo.settle();
    assert_eq!(solo.goodbyes_on(3), 2);
    let is_of_host = |(_, name, _): &&(LinkId, String, u16)| name.starts_with("h0-1");
    assert_eq!(solo.goodbyes.iter().filter(is_of_host).count(), 0, "the service has it");
    solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
    solo.settle();
    assert_eq!(solo.goodbyes.iter().filter(is_of_host).count(), 4, "it answers for its host until it goes");
}

#[test]
fn a_withdrawal_that_sleep_interrupts_is_said_once_its_name_has_been_probed_for() {
    for is_taken in [true, false] {
        let mut solo = Solo::new([link(0)]);
        solo.machine.advertise(solo.now, 1, named(0, 1, "web"));
        solo.settle();
        solo.machine.withdraw(solo.now, 1, named(0, 1, "web"), 1);
        solo.machine.woke(solo.now);
        if is_taken {
            solo.claim(1);
        }
        solo.settle();
        assert_eq!(solo.goodbyes_on(1), if is_taken { 0 } else { 2 });
        assert_eq!(solo.withdrawn.len(), 1);
    }
}

/// The link was probed anew, and then its network changed: the goodbye left in the middle of the probing.
#[test]
fn a_service_whose_address_leaves_a_link_is_withdrawn_there_unless_another_host_has_its_name() {
    for is_taken in [true, false] {
        let mut solo = Solo::new([link(0)]);
        let service = Service { ip: Some([192, 0, 2, 50].into()), ..named(0, 1, "web") };
        solo.machine.advertise(solo.now, 1, service);
        solo.settle();
        solo.machine.woke(solo.now);
        let ip = Ipv4Addr::new(198, 51, 100, 1);
        let netmask = Ipv4Addr::new(255, 255, 255, 0);
        let addresses = vec![IfAddr::V4(Ifv4Addr { ip, netmask, prefixlen: 24, broadcast: None })];
        solo.machine.link_changed(solo.now, Link { addresses, ..link(0) });
        if is_taken {
            solo.claim(1);
        }
        solo.settle();
        assert_eq!(solo.goodbyes_on(1), if is_taken { 0 } else { 2 });
    }
}

/// The name was held until the link that was away came back, which it may never do.
#[test]
fn a_name_whose_goodbye_waits_for_a_link_is_free_on_another_once_its_caller_has_an_answer() {
    let mut solo = Solo::with_late_goodbye();
    solo.machine.link_up(solo.now, eth1(2));
    solo.machine.advertise(solo.now, 2, named(0, 2, "web"));
    solo.run(Duration::from_secs(5));
    solo.machine.withdraw(solo.now, 3, named(0, 2, "web"), 3);
    solo.settle();
    let held = Goodbye::Unneeded("its name is another registration's".to_owned());
    assert_eq!(solo.withdrawn[1..], [(3, held)], "the new one has it");
    // It is announced there too, which replaces what hosts know.
    solo.machine.link_up(solo.now, Link { id: LinkId(3), ..link(0) });
    solo.settle();
    assert_eq!(solo.goodbyes, []);
    solo.machine.withdraw(solo.now, 2, named(0, 2, "web"), 2);
    solo.settle();
    assert_eq!([2, 3].map(|link| solo.goodbyes_on(link)), [2; 2]);
}

/// The promise is a second on a quiet machine; so much of it is waiting for each other.
#[test]
fn a_thousand_goodbyes_leave_within_half_a_second_of_the_machines_time() {
    let mut solo = Solo::new([link(0)]);
    (1..=1_000).for_each(|key| solo.machine.advertise(solo.now, key, named(0, key, &format!("{key}"))));
    solo.run(Duration::from_secs(30));
    let began = solo.now;
    for key in 1..=1_000 {
        let token = u64::try_from(key).expect("small keys");
        solo.machine.withdraw(solo.now, key, named(0, key, &format!("{key}")), token);
    }
    solo.run(Duration::from_millis(500));
    let left = solo.goodbyes_on(1);
    assert!(left >= 1_000, "{left} goodbyes after {:?}", solo.now - began);
    solo.settle();
    assert_eq!(solo.goodbyes_on(1), 2_000);
    assert!(solo.withdrawn.iter().all(|(_, goodbye)| *goodbye == Goodbye::Sent));
}
