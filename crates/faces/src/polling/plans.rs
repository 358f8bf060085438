//! Who should have which target, worked out once for each change of a group, however many ask.

use super::group::Group;
use super::shown::{Preferred, preferred};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_api::{Error, ErrorCode};
use tokio::sync::OnceCell;

/// Groups whose plans are kept.
const GROUPS_MAX: usize = 64;

/// The newest plan of each group.
#[derive(Default)]
pub(crate) struct Plans(Mutex<HashMap<String, Plan>>);

struct Plan {
    version: u64,
    worked_out: Arc<OnceCell<Arc<Preferred>>>,
}

impl Plans {
    /// The plan of a group as it is. The first caller works it out on a blocking thread; others wait for the result.
    pub(crate) async fn of(&self, name: &str, group: &Arc<Group>) -> Result<Arc<Preferred>, Error> {
        let plan = self.plan(name, group.version);
        let worked_out = plan.get_or_try_init(|| async {
            let group = Arc::clone(group);
            tokio::task::spawn_blocking(move || Arc::new(preferred(&group))).await
        });
        let stopping = |_| Error::new(ErrorCode::ShuttingDown, "the daemon is stopping");
        worked_out.await.cloned().map_err(stopping)
    }

    fn plan(&self, name: &str, version: u64) -> Arc<OnceCell<Arc<Preferred>>> {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(name).filter(|plan| plan.version == version) {
            return Arc::clone(&plan.worked_out);
        }
        if plans.len() >= GROUPS_MAX && !plans.contains_key(name) {
            plans.clear();
        }
        let worked_out = Arc::<OnceCell<_>>::default();
        plans.insert(name.to_owned(), Plan { version, worked_out: Arc::clone(&worked_out) });
        worked_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_worked_out_once_for_each_version() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let plans = Plans::default();
            let group = |version| Arc::new(Group { version, ..Group::default() });
            let first = group(1);
            let (one, other) = tokio::join!(plans.of("g", &first), plans.of("g", &first));
            let (one, other) = (one.unwrap(), other.unwrap());
            assert!(Arc::ptr_eq(&one, &other), "whoever asks meanwhile waits for the same");
            assert!(Arc::ptr_eq(&one, &plans.of("g", &group(1)).await.unwrap()));
            assert!(!Arc::ptr_eq(&one, &plans.of("g", &group(2)).await.unwrap()), "the group has changed");
            assert!(!Arc::ptr_eq(&one, &plans.of("h", &group(1)).await.unwrap()), "another group");
            for number in 0..10 * GROUPS_MAX {
                plans.of(&number.to_string(), &group(1)).await.unwrap();
            }
            assert!(plans.0.lock().unwrap().len() <= GROUPS_MAX);
        });
    }
}
