//! Requests not yet answered, waiting ones included: a pool for each lane, and within it what one principal has.
//!
//! Invariant: what a principal has outstanding in one lane refuses nothing of another lane, and nothing of anybody who
//! asks for little.

use crate::answer::CallLimit;
use crate::request::{Lane, Request, Share};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tenure_kernel::Text;

/// A caller that has more than one in this many of a lane's room outstanding is busy.
const BUSY_PART: usize = 8;
/// Accounts of callers that may be gone before somebody looks.
const ACCOUNTS_MIN: usize = 64;

type Counts = [AtomicUsize; Lane::ALL.len()];

/// What one principal has outstanding, by lane. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Account(Arc<Counts>);

/// The accounts of all principals that ask at present.
#[derive(Debug, Default)]
pub struct Accounts(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    by: BTreeMap<Text, Weak<Counts>>,
    /// With this many, those of callers that are gone are removed.
    sweep_at: usize,
}

/// Who asks, as far as places go.
#[derive(Clone, Copy, Debug)]
pub enum Asker<'a> {
    /// The daemon, for itself.
    Daemon,
    /// Somebody.
    Caller {
        /// What its principal has outstanding.
        account: &'a Account,
        /// Whether it may have the last places.
        is_operator: bool,
    },
}

pub(crate) struct Pools {
    outstanding: Counts,
    max: usize,
    of_principal_max: usize,
    busy_above: usize,
}

/// The places that one call takes until all of it is answered.
pub(crate) struct Places {
    counts: [u32; Lane::ALL.len()],
    account: Option<Account>,
}

/// By lane, how much of it the requests of a call may fill, or why they are refused.
pub(crate) type Admitted = [Result<Share, CallLimit>; Lane::ALL.len()];

impl Accounts {
    /// The account of a principal.
    #[must_use]
    pub fn of(&self, principal: &Text) -> Account {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = ledger.by.get(principal).and_then(Weak::upgrade) {
            return Account(counts);
        }
        if ledger.by.len() >= ledger.sweep_at.max(ACCOUNTS_MIN) {
            ledger.by.retain(|_, counts| counts.strong_count() > 0);
            ledger.sweep_at = 2 * ledger.by.len();
        }
        let account = Account::default();
        ledger.by.insert(principal.clone(), Arc::downgrade(&account.0));
        account
    }
}

impl Pools {
    /// `inbox` is the room of all lanes together.
    pub(crate) fn new(max: usize, of_principal_max: usize, inbox: usize) -> Self {
        let busy_above = inbox / Lane::ALL.len() / BUSY_PART;
        Self { outstanding: Counts::default(), max, of_principal_max, busy_above }
    }

    /// What a limit is at present.
    pub(crate) fn value(&self, limit: CallLimit) -> usize {
        if limit == CallLimit::CallsOfPrincipal { self.of_principal_max } else { self.max }
    }

    /// Takes places for the requests of one call. A pool without enough of them gives none: what belongs there is
    /// refused, the rest goes on.
    pub(crate) fn take(&self, asker: Asker<'_>, requests: &[Request]) -> (Places, Admitted) {
        let mut counts = [0; Lane::ALL.len()];
        for request in requests {
            counts[request.lane() as usize] += 1;
        }
        let mut admitted: Admitted = [Ok(Share::Operator); Lane::ALL.len()];
        for (lane, (wanted, admitted)) in counts.iter_mut().zip(&mut admitted).enumerate() {
            if *wanted > 0 {
                *admitted = self.take_in(lane, *wanted as usize, asker);
                if admitted.is_err() {
                    *wanted = 0;
                }
            }
        }
        let account = match asker {
            Asker::Daemon => None,
            Asker::Caller { account, .. } => Some(account.clone()),
        };
        (Places { counts, account }, admitted)
    }

    fn take_in(&self, lane: usize, wanted: usize, asker: Asker<'_>) -> Result<Share, CallLimit> {
        let (own, share) = match asker {
            Asker::Daemon => (None, Share::Operator),
            Asker::Caller { account, is_operator } => {
                let own = &account.0[lane];
                let has = own.fetch_add(wanted, Ordering::Relaxed).saturating_add(wanted);
                if has > self.of_principal_max {
                    own.fetch_sub(wanted, Ordering::Relaxed);
                    return Err(CallLimit::CallsOfPrincipal);
                }
                let share = if has > self.busy_above {
                    Share::Busy
                } else if is_operator {
                    Share::Operator
                } else {
                    Share::Ordinary
                };
                (Some(own), share)
            }
        };
        let pool = &self.outstanding[lane];
        if pool.fetch_add(wanted, Ordering::Relaxed).saturating_add(wanted) > share.of(self.max) {
            pool.fetch_sub(wanted, Ordering::Relaxed);
            if let Some(own) = own {
                own.fetch_sub(wanted, Ordering::Relaxed);
            }
            return Err(CallLimit::Calls);
        }
        Ok(share)
    }

    /// Gives the places of one call back.
    pub(crate) fn give_back(&self, places: &Places) {
        for (lane, count) in places.counts.iter().enumerate() {
            let count = *count as usize;
            if count > 0 {
                self.outstanding[lane].fetch_sub(count, Ordering::Relaxed);
                if let Some(account) = &places.account {
                    account.0[lane].fetch_sub(count, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_kernel::{Epoch, LeaseId};

    fn reads(count: usize) -> Vec<Request> {
        vec![Request::Status; count]
    }

    fn beats(count: usize) -> Vec<Request> {
        let beat = Request::Heartbeat { lease: LeaseId(1), epoch: Epoch::FIRST, via: None, asker: None };
        vec![beat; count]
    }

    fn caller(account: &Account, is_operator: bool) -> Asker<'_> {
        Asker::Caller { account, is_operator }
    }

    /// Takes places one by one until a lane has none; returns them and why.
    fn fill(pools: &Pools, asker: Asker<'_>, of: fn(usize) -> Vec<Request>) -> (Vec<Places>, CallLimit) {
        let mut taken = Vec::new();
        loop {
            let (places, admitted) = pools.take(asker, &of(1));
            if let Some(limit) = admitted.into_iter().find_map(Result::err) {
                return (taken, limit);
            }
            taken.push(places);
        }
    }

    #[test]
    fn callers_together_leave_the_last_eighth_to_operators() {
        let (pools, accounts) = (Pools::new(64, 1_000, 1 << 20), Accounts::default());
        let mut crowd = Vec::new();
        for n in 0..80 {
            let account = accounts.of(&format!("token:{n}").as_str().into());
            let (places, admitted) = pools.take(caller(&account, false), &reads(1));
            assert_eq!(admitted[Lane::Reading as usize].is_ok(), n < 56, "{n}");
            crowd.push(places);
        }
        let root = accounts.of(&"uid:0".into());
        let (served, limit) = fill(&pools, caller(&root, true), reads);
        assert_eq!((served.len(), limit), (8, CallLimit::Calls));
        crowd.iter().chain(&served).for_each(|places| pools.give_back(places));
        assert_eq!(fill(&pools, caller(&root, true), reads).0.len(), 64, "places come back");
    }

    #[test]
    fn one_principal_has_a_bound_in_each_lane_and_its_calls_of_one_lane_refuse_none_of_another() {
        let (pools, accounts) = (Pools::new(64, 32, 1 << 20), Accounts::default());
        let flooder = accounts.of(&"token:flooder".into());
        let (held, limit) = fill(&pools, caller(&flooder, true), reads);
        assert_eq!((held.len(), limit), (32, CallLimit::CallsOfPrincipal));
        assert_eq!(pools.value(limit), 32);
        // Asked in one call with a read, over another connection.
        let again = accounts.of(&"token:flooder".into());
        let (_, admitted) = pools.take(caller(&again, false), &[beats(20), reads(1)].concat());
        assert!(admitted[Lane::Liveness as usize].is_ok());
        assert_eq!(admitted[Lane::Reading as usize], Err(CallLimit::CallsOfPrincipal));
        let other = accounts.of(&"token:other".into());
        assert_eq!(fill(&pools, caller(&other, false), reads).0.len(), 24);
        held.iter().for_each(|places| pools.give_back(places));
        assert!(
            pools.take(caller(&flooder, false), &reads(8)).1[Lane::Reading as usize].is_ok(),
            "places come back"
        );
    }

    #[test]
    fn who_has_much_outstanding_may_fill_less_of_a_lane() {
        let (pools, accounts) = (Pools::new(1_000, 1_000, 64), Accounts::default());
        let (root, user) = (accounts.of(&"uid:0".into()), accounts.of(&"uid:1".into()));
        let (root, user) = (caller(&root, true), caller(&user, false));
        let share = |asker| pools.take(asker, &beats(1)).1[Lane::Liveness as usize];
        assert_eq!([share(root), share(user)], [Ok(Share::Operator), Ok(Share::Ordinary)]);
        assert_eq!([share(root), share(user)], [Ok(Share::Operator), Ok(Share::Ordinary)]);
        assert_eq!([share(root), share(user)], [Ok(Share::Busy), Ok(Share::Busy)]);
        assert_eq!(share(Asker::Daemon), Ok(Share::Operator));
    }

    #[test]
    fn accounts_of_callers_that_are_gone_are_not_kept() {
        let accounts = Accounts::default();
        let kept = accounts.of(&"kept".into());
        for n in 0..1_000 {
            let _ = accounts.of(&format!("cert:{n}").as_str().into());
        }
        assert!(accounts.0.lock().unwrap().by.len() <= ACCOUNTS_MIN);
        assert!(Arc::ptr_eq(&kept.0, &accounts.of(&"kept".into()).0));
    }
}
