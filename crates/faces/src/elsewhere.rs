//! Calls that this node cannot decide, and the node that can.

use crate::call::{Call, Reply};
use crate::caller::Caller;
use crate::streams::ToldSoFar;
use core::future::Future;
use core::pin::Pin;
use tenure_api::{Error, SlotSession, SlotSessionEvent};
use tokio::sync::mpsc::Receiver;

/// What calls come to that were carried out elsewhere, in order.
pub type Passed<'a> = Pin<Box<dyn Future<Output = Vec<Result<Reply, Error>>> + Send + 'a>>;

/// What happens to one session of `/api/v3`, as the leader tells it. Ends when the session has, or when another node leads.
pub type FollowedElsewhere = Receiver<(SlotSessionEvent, SlotSession)>;

/// The begin of it.
pub type Following<'a> = Pin<Box<dyn Future<Output = Result<FollowedElsewhere, Error>> + Send + 'a>>;

/// The way to the node that decides.
pub trait Elsewhere: Send + Sync {
    /// Has calls carried out there, once. Who asks is passed on unchanged. `not_leader`: nothing was decided.
    /// `outcome_unknown`: the same call under the same operation id finds out.
    fn pass<'a>(&'a self, caller: &'a Caller, calls: Vec<Call>) -> Passed<'a>;

    /// Follows a session of `/api/v3` there, after what was told of it. `not_leader`: no node tells it at present.
    fn follow<'a>(&'a self, session_id: &'a str, told: Option<&'a ToldSoFar>) -> Following<'a>;
}
