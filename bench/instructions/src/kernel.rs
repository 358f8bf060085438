//! The rules: decide, evolve, and the bytes of the event, with 10,000 live leases of a thousand holders.

use crate::{HotPath, ROUNDS, Round, resource, scattered};
use anyhow::bail;
use tenure_kernel::codec::{FORMAT, encode_event};
use tenure_kernel::{
    Action, Bundle, Command, Decision, Epoch, Event, Grant, Kernel, LeaseId, Lsn, Policy, Release, Setup,
    Stamp, Text, Tick, Token,
};

pub(crate) const LIVE: usize = 10_000;
const PAIRS: usize = 1_000;

pub(crate) const GRANT_AND_RELEASE: HotPath =
    HotPath { name: "kernel: grant + release, 10,000 live", operations: PAIRS, prepare: grant_and_release };

/// A kernel that is asked, and the position of what it decided last.
pub(crate) struct Asked {
    pub(crate) kernel: Kernel,
    lsn: Lsn,
}

impl Asked {
    pub(crate) fn new() -> Self {
        let mut setup = Setup::plain();
        setup.limits.leases_per_principal_max = u64::MAX;
        Self { kernel: Kernel::new(setup), lsn: Lsn(0) }
    }

    pub(crate) fn ask(&mut self, command: &Command) -> anyhow::Result<(Stamp, Event)> {
        let at = Stamp { lsn: Lsn(self.lsn.0 + 1), tick: Tick(0) };
        match self.kernel.decide(at, command) {
            Ok(Decision::Event(event)) => {
                self.kernel.evolve(at, &event);
                self.lsn = at.lsn;
                Ok((at, event))
            }
            other => bail!("not accepted: {other:?}"),
        }
    }
}

pub(crate) fn grant(number: usize) -> Command {
    let (bundle, holder) = (Bundle::one(&resource(number)), format!("holder{:04}", number % 1_000));
    Command::plain(Action::Grant(Grant::new(bundle, &holder, Policy::heartbeat(90_000, 30_000))))
}

fn release(lease: LeaseId) -> Command {
    let token = Token::new(lease, Epoch::FIRST);
    Command::plain(Action::Release(Release { token, text: Text::default() }))
}

/// Releases a lease and grants its resource again.
fn grant_and_release() -> anyhow::Result<Round> {
    let mut asked = Asked::new();
    let mut leases = Vec::with_capacity(LIVE);
    for number in 0..LIVE {
        leases.push(LeaseId::new(0, asked.ask(&grant(number))?.0.lsn));
    }
    let mut pairs = Vec::with_capacity(ROUNDS * PAIRS);
    pairs.extend(scattered(LIVE).take(ROUNDS * PAIRS).map(|number| (number, grant(number))));
    let mut pairs = pairs.into_iter();
    let mut bytes = Vec::with_capacity(1 << 20);
    Ok(Box::new(move || {
        bytes.clear();
        for (number, grant) in pairs.by_ref().take(PAIRS) {
            let (_, released) = asked.ask(&release(leases[number])).expect("invariant: it is held");
            encode_event(&released, FORMAT, &mut bytes);
            let (at, granted) = asked.ask(&grant).expect("invariant: it is free");
            encode_event(&granted, FORMAT, &mut bytes);
            leases[number] = LeaseId::new(0, at.lsn);
        }
    }))
}
