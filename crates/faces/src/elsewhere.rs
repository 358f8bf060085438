//! Calls that this node cannot decide, and the node that can.

use crate::call::{Call, Reply};
use crate::caller::Caller;
use core::future::Future;
use core::pin::Pin;
use tenure_api::Error;

/// What calls come to that were carried out elsewhere, in order.
pub type Passed<'a> = Pin<Box<dyn Future<Output = Vec<Result<Reply, Error>>> + Send + 'a>>;

/// The way to the node that decides.
pub trait Elsewhere: Send + Sync {
    /// Has calls carried out there, once. Who asks is passed on unchanged. `not_leader`: nothing was decided.
    /// `outcome_unknown`: the same call under the same operation id finds out.
    fn pass<'a>(&'a self, caller: &'a Caller, calls: Vec<Call>) -> Passed<'a>;
}
