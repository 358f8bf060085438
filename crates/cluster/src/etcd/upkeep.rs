//! The messages of etcd's upkeep that are used here: how its members are, and who may ask. Field numbers as in its
//! `rpc.proto`.

use super::messages::ResponseHeader;
use prost::Message;

/// `/etcdserverpb.Auth/Authenticate`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// `/etcdserverpb.Maintenance/Status`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
    /// 0: it knows none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) raft_term: u64,
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(crate) db_size_in_use: i64,
    /// 0: a release that does not say.
    #[prost(int64, tag = "12")]
    pub(crate) db_size_quota: i64,
}

/// `/etcdserverpb.Maintenance/Alarm`; without anything in it: which ones there are
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(crate) member_id: u64,
    #[prost(int32, tag = "2")]
    pub(crate) alarm: i32,
}

/// `/etcdserverpb.Cluster/MemberList`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<MemberListed>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MemberListed {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(crate) is_learner: bool,
}
