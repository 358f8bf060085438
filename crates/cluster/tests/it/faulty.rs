//! A store between a log and a real one, which loses, repeats or keeps back what passes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_cluster::store::{Ranged, Stepped, Store, StoreError, Txn, Watching};

/// What happens to one step that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It arrives, and so does its answer.
    None,
    /// It does not arrive.
    LoseRequest,
    /// It is done, and nobody hears of it.
    LoseReply,
    /// It arrives when [`Faulty::deliver_late`] is called.
    Late,
    /// It arrives twice; what is heard is the second answer.
    Twice,
}

pub(crate) struct Faulty {
    under: Mutex<Arc<dyn Store>>,
    faults: Mutex<VecDeque<Fault>>,
    late: Mutex<Vec<Txn>>,
}

impl Faulty {
    pub(crate) fn over(under: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { under: Mutex::new(under), faults: Mutex::default(), late: Mutex::default() })
    }

    /// The next steps that write have these faults; those after them have none.
    pub(crate) fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// From now on another store is asked.
    pub(crate) fn replace(&self, under: Arc<dyn Store>) {
        *self.under.lock().unwrap() = under;
    }

    fn under(&self) -> Arc<dyn Store> {
        Arc::clone(&self.under.lock().unwrap())
    }

    /// What was kept back arrives; says which of it was done.
    pub(crate) fn deliver_late(&self) -> Vec<bool> {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        late.iter().map(|txn| self.under().step(txn, Duration::from_secs(5)).unwrap().held).collect()
    }
}

impl Store for Faulty {
    fn step(&self, txn: &Txn, within: Duration) -> Result<Stepped, StoreError> {
        let lost = || Err(StoreError::Unanswered { why: "the test lost it".to_owned() });
        let fault = if txn.writes() { self.faults.lock().unwrap().pop_front() } else { None };
        match fault.unwrap_or(Fault::None) {
            Fault::None => self.under().step(txn, within),
            Fault::LoseRequest => lost(),
            Fault::LoseReply => {
                self.under().step(txn, within)?;
                lost()
            }
            Fault::Late => {
                self.late.lock().unwrap().push(txn.clone());
                lost()
            }
            Fault::Twice => {
                self.under().step(txn, within)?;
                self.under().step(txn, within)
            }
        }
    }

    fn range(&self, from: &str, to: &str, limit: usize, within: Duration) -> Result<Ranged, StoreError> {
        self.under().range(from, to, limit, within)
    }

    fn watch(
        &self,
        from: &str,
        to: &str,
        since: u64,
        within: Duration,
    ) -> Result<Box<dyn Watching>, StoreError> {
        self.under().watch(from, to, since, within)
    }

    fn compact(&self, revision: u64, within: Duration) -> Result<(), StoreError> {
        self.under().compact(revision, within)
    }
}
