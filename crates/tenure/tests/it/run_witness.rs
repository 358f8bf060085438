//! Contenders for one resource under random faults, and a witness: whoever runs writes its fence into one file again and
//! again. The kernel orders those writes; that the fences never fall proves that no two ran at once.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::run_desk::{RunDesk, Running};
use crate::run_support::{boot_ms, holds_for, repeat_for, signal, wait_until};

const TTL: Duration = Duration::from_millis(1_500);
/// How long a healthy world may take to go on.
const PATIENCE: Duration = Duration::from_secs(40);

/// What happens to the holder, or around it.
#[derive(Clone, Copy, Debug)]
enum Fault {
    SupervisorStopped,
    SupervisorKilled,
    SupervisorPaused,
    SupervisorAsked,
    GuardianKilled,
    GuardianStopped,
    CommandKilled,
    DaemonKilled,
    DaemonFrozen,
    DaemonKilledSupervisorStopped,
    DaemonKilledGuardianStopped,
    DaemonFrozenSupervisorKilled,
    Revoked,
}

const FAULTS: &[Fault] = &[
    Fault::SupervisorStopped,
    Fault::SupervisorKilled,
    Fault::SupervisorPaused,
    Fault::SupervisorAsked,
    Fault::GuardianKilled,
    Fault::GuardianStopped,
    Fault::CommandKilled,
    Fault::DaemonKilled,
    Fault::DaemonFrozen,
    Fault::DaemonKilledSupervisorStopped,
    Fault::DaemonKilledGuardianStopped,
    Fault::DaemonFrozenSupervisorKilled,
    Fault::Revoked,
];

/// The same draws for the same seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_millis(self.below(longest.as_millis() as u64))
    }
}

/// Reads what the commands wrote.
struct Witness {
    file: File,
    rest: String,
    fence: u64,
    lines: u64,
    /// A line of somebody who should not have been running any more.
    fallen: Option<String>,
}

impl Witness {
    /// The newest fence; fails if two ran at once.
    #[track_caller]
    fn fence(&mut self) -> u64 {
        self.look();
        assert_eq!(self.fallen, None, "two ran at once");
        self.fence
    }

    fn look(&mut self) {
        self.file.read_to_string(&mut self.rest).unwrap();
        let whole = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        for line in self.rest.lines() {
            let fence: u64 = line.split(' ').next().unwrap().parse().unwrap();
            if fence < self.fence {
                self.fallen = Some(format!("{line} after {}", self.fence));
            }
            self.fence = self.fence.max(fence);
            self.lines += 1;
        }
        self.rest = rest;
    }
}

/// One resource and everything around it.
struct Arena {
    desk: RunDesk,
    script: PathBuf,
    witness: Witness,
    draws: Draws,
}

impl Arena {
    fn open(seed: u64) -> Self {
        let desk = RunDesk::open();
        let (file, name) = desk.file("witness");
        let file = File::options().create(true).append(true).read(true).open(file).unwrap();
        let (script, _) = desk.file("command");
        // $1: whether it ignores the polite signal, $2: whether it also writes from a process that went its own way.
        let text = format!(
            "test $1 = deaf && trap '' TERM
write() {{ while :; do echo \"$TENURE_FENCE $$ $1 $(cut -d' ' -f1 /proc/uptime)\" >>{name}; sleep 0.002; done; }}
test $2 = forking && {{ setsid sh -c \"(trap '' TERM; while :; do echo \\\"$TENURE_FENCE $$ away\\\" >>{name}; \
sleep 0.002; done) &\" & }}
write main
"
        );
        std::fs::write(&script, text).unwrap();
        let witness = Witness { file, rest: String::new(), fence: 0, lines: 0, fallen: None };
        Self { desk, script, witness, draws: Draws(seed) }
    }

    fn contend(&mut self, more: &[&str]) -> Running {
        let ttl = format!("{}ms", TTL.as_millis());
        let mut arguments = vec!["run", "--resource", "r", "--wait", "5m", "--ttl", &ttl];
        arguments.extend(more);
        if self.draws.below(2) == 0 {
            arguments.push("--no-cgroup");
        }
        let hearing = ["deaf", "hearing"][self.draws.below(2) as usize];
        let forking = ["forking", "staying"][self.draws.below(2) as usize];
        arguments.extend(["--", "sh", self.script.to_str().unwrap(), hearing, forking]);
        self.desk.begin_with(&mut self.desk.command(&arguments))
    }

    /// Who is not known to the daemon yet gives up when it cannot be reached, and rightly so.
    fn wait_for_waiter(&mut self) {
        wait_until("a waiter", PATIENCE, || self.desk.has_waiter("r"));
    }

    /// Breaks something, waits a while, and mends what can be mended.
    fn strike(&mut self, fault: Fault, run: &mut Running) {
        let supervisor = run.supervisor();
        let past_ttl = TTL + self.draws.up_to(TTL);
        let any_time = self.draws.up_to(TTL * 2);
        match fault {
            Fault::SupervisorStopped => {
                signal(supervisor, Signal::STOP);
                self.watch(past_ttl);
            }
            Fault::SupervisorKilled => signal(supervisor, Signal::KILL),
            Fault::SupervisorPaused => {
                signal(supervisor, Signal::STOP);
                self.watch(any_time);
                signal(supervisor, Signal::CONT);
                self.watch(any_time);
            }
            Fault::SupervisorAsked => signal(supervisor, Signal::TERM),
            Fault::GuardianKilled => signal(run.guardian(), Signal::KILL),
            Fault::GuardianStopped => {
                let guardian = run.guardian();
                signal(guardian, Signal::STOP);
                self.watch(past_ttl);
                signal(guardian, Signal::CONT);
            }
            Fault::CommandKilled => {
                let guardian = run.guardian();
                crate::run_desk::children_of(guardian)
                    .into_iter()
                    .for_each(|main| signal(main, Signal::KILL));
            }
            Fault::DaemonKilled => {
                self.desk.kill_daemon();
                self.watch(any_time);
                self.desk.start_daemon();
            }
            Fault::DaemonFrozen => {
                signal(self.desk.daemon(), Signal::STOP);
                self.watch(any_time);
                signal(self.desk.daemon(), Signal::CONT);
            }
            Fault::DaemonKilledSupervisorStopped => {
                signal(supervisor, Signal::STOP);
                self.desk.kill_daemon();
                self.watch(any_time);
                self.desk.start_daemon();
                self.watch(past_ttl);
            }
            Fault::DaemonKilledGuardianStopped => {
                let guardian = run.guardian();
                signal(guardian, Signal::STOP);
                self.desk.kill_daemon();
                self.watch(past_ttl);
                self.desk.start_daemon();
                signal(guardian, Signal::CONT);
            }
            Fault::DaemonFrozenSupervisorKilled => {
                signal(self.desk.daemon(), Signal::STOP);
                signal(supervisor, Signal::KILL);
                self.watch(any_time);
                signal(self.desk.daemon(), Signal::CONT);
            }
            Fault::Revoked => {
                let leases = self.desk.tenure(&["lease", "ls", "--json"]).out;
                let list: serde_json::Value = serde_json::from_str(&leases).unwrap();
                if let Some(lease) = list["leases"][0]["lease_id"].as_str() {
                    self.desk.tenure(&["lease", "revoke", lease, "--yes"]);
                }
            }
        }
    }

    /// Lets time pass and looks at every line meanwhile.
    fn watch(&mut self, time: Duration) {
        repeat_for(time, || {
            self.witness.fence();
        });
    }

    /// Who held the resource lets go, and the next one runs.
    fn pass(&mut self, before: u64, holder: &mut Running, next: &Running) {
        let witness = &mut self.witness;
        // Many faults are survived; then the holder is ended the hard way.
        if holds_for(TTL * 3, || witness.fence() == before) {
            holder.signal(Signal::KILL);
        }
        if holds_for(PATIENCE, || witness.fence() == before) {
            panic!("no next holder; holder: {:?}, next: {:?}", holder.errors(), next.errors());
        }
        holder.signal(Signal::CONT);
        holder.code_within(PATIENCE);
    }
}

#[expect(clippy::print_stdout, reason = "shown only when a round fails: which one, and what came before")]
fn rounds(seed: u64, count: usize) {
    let mut arena = Arena::open(seed);
    let mut holder = arena.contend(&[]);
    for round in 0..count {
        let before = arena.witness.fence;
        wait_until("a holder that writes", PATIENCE, || arena.witness.fence() > before || round > 0);
        let mut next = arena.contend(&[]);
        arena.wait_for_waiter();
        // Every fault comes before one comes twice, in an order that depends on the seed.
        let fault = FAULTS[(round * 5 + seed as usize) % FAULTS.len()];
        let (before, began_ms) = (arena.witness.fence(), boot_ms());
        println!("seed {seed} round {round}: {fault:?}");
        arena.strike(fault, &mut holder);
        arena.pass(before, &mut holder, &next);
        println!("  {} ms, the holder said {:?}", boot_ms() - began_ms, holder.errors());
        holder = std::mem::replace(&mut next, holder);
    }
    assert!(arena.witness.lines > count as u64 * 10, "{} lines", arena.witness.lines);
}

#[test]
fn the_witness_notices_when_exclusion_is_given_up() {
    let mut arena = Arena::open(1);
    let holder = arena.contend(&["--on-lost", "warn"]);
    wait_until("a holder that writes", PATIENCE, || arena.witness.fence() > 0);
    let next = arena.contend(&[]);
    arena.wait_for_waiter();
    holder.signal(Signal::STOP);
    wait_until("two at once", PATIENCE, || {
        arena.witness.look();
        arena.witness.fallen.is_some()
    });
    drop((holder, next));
}

#[test]
fn no_two_copies_ever_run_at_once() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("TENURE_SEED").unwrap_or(1);
    let is_soak = std::env::var_os("TENURE_SOAK").is_some();
    rounds(seed, if is_soak { 100 } else { 10 });
}
