//! Before a node rests on a store it looks whether it may: old releases, members that do not sync, alarms.

use std::sync::Arc;
use std::time::Duration;

use tenure_cluster::Keys;
use tenure_cluster::etcd::{AlarmKind, EtcdStore, Surveyed};
use tenure_cluster::store::{Op, Store, StoreError, Txn};
use tenure_engine::host::read_clocks;

/// Why a store is not rested on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterlockError {
    /// It does not answer.
    #[error("etcd at {endpoints} does not answer")]
    Silent {
        /// Whom was asked.
        endpoints: String,
        /// What happened instead.
        #[source]
        source: StoreError,
    },
    /// It answers, and does not let this node in.
    #[error("etcd at {endpoints} rejects the requests of this node")]
    Rejects {
        /// Whom was asked.
        endpoints: String,
        /// What it said.
        #[source]
        source: StoreError,
    },
    /// It is too old.
    #[error("etcd member {member} has version {found}; {OLDEST_TEXT} or later is required")]
    TooOld {
        /// Which.
        member: String,
        /// Its release.
        found: String,
    },
    /// It acknowledges what it has not synced.
    #[error(
        "etcd member {member} does not sync its log: a power failure would lose acknowledged writes (is it run with --unsafe-no-fsync?)"
    )]
    DoesNotSync {
        /// Which.
        member: String,
    },
}

const OLDEST: [u64; 3] = [3, 4, 23];
const OLDEST_TEXT: &str = "3.4.23";
/// How long one question may take.
const WITHIN: Duration = Duration::from_secs(2);
/// Steps that must make every member sync.
const STEPS: usize = 4;
/// Part of the quota above which people are told.
const FULL_PERCENT: u128 = 50;

/// Looks at the store, and writes nothing; what people should know comes back.
pub(crate) fn check(store: &Arc<EtcdStore>, within: Duration) -> Result<Vec<String>, InterlockError> {
    let before = survey(store, within)?;
    let mut warnings = Vec::new();
    for found in &before {
        let Some(status) = &found.status else { continue };
        if is_too_old(&status.version) {
            return Err(InterlockError::TooOld {
                member: found.member.name.clone(),
                found: status.version.clone(),
            });
        }
    }
    if before.len() == 1 {
        warnings.push("etcd has a single member: losing its disk loses the log".to_owned());
    }
    if store.asks_nobody() {
        warnings.push(
            "--etcd-user is given, but authentication is off in etcd: every client that reaches it can read and write \
             everything; create the user root, then run etcdctl auth enable"
                .to_owned(),
        );
    }
    warnings.extend(complaints(&before));
    Ok(warnings)
}

fn survey(store: &EtcdStore, within: Duration) -> Result<Vec<Surveyed>, InterlockError> {
    let began_ms = read_clocks().boot_ms;
    let mut is_told = false;
    loop {
        let source = match store.survey(WITHIN) {
            Ok(found) => return Ok(found),
            Err(source) => source,
        };
        if read_clocks().boot_ms.saturating_sub(began_ms) > within.as_millis() as u64 {
            let endpoints = store.endpoints().join(", ");
            return Err(match source {
                StoreError::Unanswered { .. } => InterlockError::Silent { endpoints, source },
                StoreError::Refused { .. } => InterlockError::Rejects { endpoints, source },
            });
        }
        if !is_told {
            is_told = true;
            tracing::warn!(error = %source, within_s = within.as_secs(), "waiting for etcd");
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
}

/// What is wrong with the store's room and members, in sentences.
pub(super) fn complaints(survey: &[Surveyed]) -> Vec<String> {
    let mut complaints = Vec::new();
    for found in survey {
        if found.status.is_none() {
            complaints.push(format!("etcd member {} does not answer", found.member.name));
        }
        for alarm in &found.alarms {
            complaints.push(match alarm {
                AlarmKind::NoSpace => format!(
                    "etcd member {} is full (NOSPACE): compact and defragment it, then disarm the alarm",
                    found.member.name
                ),
                AlarmKind::Corrupt => {
                    format!("etcd member {} differs from the others (CORRUPT)", found.member.name)
                }
                AlarmKind::Other(code) => {
                    format!("etcd member {} has raised alarm {code}", found.member.name)
                }
            });
        }
    }
    let (bytes, quota) = size(survey);
    if let Some(percent) = percent_of(bytes, quota).filter(|percent| *percent >= FULL_PERCENT) {
        complaints.push(format!(
            "etcd's database takes {percent} % of its quota: compact and defragment it, or raise --quota-backend-bytes"
        ));
    }
    complaints
}

/// How much of a quota is taken, rounded down; `None`: nobody says. etcd takes any number for its quota.
pub(super) fn percent_of(bytes: u64, quota: u64) -> Option<u128> {
    (u128::from(bytes) * 100).checked_div(quota.into())
}

/// The largest database of any member, and the smallest quota; 0: nobody says.
pub(super) fn size(survey: &[Surveyed]) -> (u64, u64) {
    let statuses = || survey.iter().filter_map(|found| found.status.as_ref());
    let bytes = statuses().map(|status| status.db_bytes).max().unwrap_or(0);
    let told = survey.iter().filter_map(|found| {
        let by_status = found.status.as_ref().and_then(|status| status.quota_bytes);
        by_status.or(found.metrics.and_then(|metrics| metrics.quota_bytes))
    });
    (bytes, told.min().unwrap_or(0))
}

/// How far the store has come; 0: nobody says.
pub(super) fn revision(survey: &[Surveyed]) -> u64 {
    survey.iter().filter_map(|found| found.status.as_ref()).map(|status| status.revision).max().unwrap_or(0)
}

/// Over a few steps every member must sync.
pub(super) fn check_syncs(
    store: &Arc<EtcdStore>,
    keys: &Keys,
    within: Duration,
) -> Result<Vec<String>, InterlockError> {
    let before = survey(store, within)?;
    let key = keys.node("@interlock");
    for count in 0..STEPS {
        let put = Op::Put { key: key.clone(), value: count.to_string().into_bytes() };
        // Who does not answer now is asked again by everybody else.
        let _ = store.step(&Txn { then: vec![put], ..Txn::default() }, WITHIN);
    }
    let delete = Op::Delete { from: key.clone(), to: format!("{key}\0") };
    let _ = store.step(&Txn { then: vec![delete], ..Txn::default() }, WITHIN);
    let Ok(after) = store.survey(WITHIN) else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    for found in &before {
        let fsyncs = |surveyed: &Surveyed| surveyed.metrics.and_then(|metrics| metrics.wal_fsyncs);
        let later = after.iter().find(|later| later.member.id == found.member.id);
        let revision = |surveyed: &Surveyed| surveyed.status.as_ref().map_or(0, |status| status.revision);
        match (fsyncs(found), later.and_then(fsyncs)) {
            // One that was cut off or slow has not come further, and had nothing to sync.
            (Some(before), Some(after))
                if after <= before && later.map_or(0, revision) <= revision(found) =>
            {
                warnings.push(format!(
                    "etcd member {} is behind the others: cannot check that it syncs its log",
                    found.member.name
                ));
            }
            (Some(before), Some(after)) if after <= before => {
                return Err(InterlockError::DoesNotSync { member: found.member.name.clone() });
            }
            (Some(_), Some(_)) => {}
            (None, _) | (_, None) => warnings.push(format!(
                "etcd member {} does not show its metrics: cannot check that it syncs its log",
                found.member.name
            )),
        }
    }
    Ok(warnings)
}

fn is_too_old(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u64>().unwrap_or(0));
    let found = [(); 3].map(|()| parts.next().unwrap_or(0));
    found < OLDEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        for old in ["3.4.22", "3.3.99", "2.9.9", "3.4.9"] {
            assert!(is_too_old(old), "{old}");
        }
        for new in ["3.4.23", "3.5.0", "3.5.0-rc.1", "3.6.1+git", "4.0.0", "3.10.0"] {
            assert!(!is_too_old(new), "{new}");
        }
    }
}
