//! The messages of etcd's gRPC interface that are used here, with the field numbers of its `rpc.proto` and `kv.proto`.
//! Fields nobody asks for are left out: a decoder skips what it does not know.

use prost::{Enumeration, Message, Oneof};

/// What every answer begins with.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
    /// Of the whole store, when the request was applied.
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(crate) raft_term: u64,
}

/// One key as it is stored.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// 0: the key does not exist.
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    /// The lease the key goes with; 0: none.
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum SortOrder {
    None = 0,
    Ascend = 1,
    Descend = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum SortTarget {
    Key = 0,
    Version = 1,
    Create = 2,
    Mod = 3,
    Value = 4,
}

/// `/etcdserverpb.KV/Range`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// Exclusive; empty: the key alone. See [`prefix_end`].
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    /// 0: all.
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub(crate) sort_order: i32,
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub(crate) sort_target: i32,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
    /// Only keys created no later; 0: all.
    #[prost(int64, tag = "13")]
    pub(crate) max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    /// Of the whole range, whatever the limit.
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

/// `/etcdserverpb.KV/Put`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

/// `/etcdserverpb.KV/DeleteRange`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) deleted: i64,
}

/// What a transaction does.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum CompareResult {
    Equal = 0,
    Greater = 1,
    Less = 2,
    NotEqual = 3,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
    Lease = 4,
}

/// What must hold for a transaction to succeed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub(crate) result: i32,
    /// Must name the same field as `operand`.
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Operand", tags = "4, 5, 6, 7, 8")]
    pub(crate) operand: Option<Operand>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Operand {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "vec", tag = "7")]
    Value(Vec<u8>),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

/// `/etcdserverpb.KV/Txn`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

/// `/etcdserverpb.Watch/Watch`, a stream both ways
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "Watching", tags = "1, 2")]
    pub(crate) request: Option<Watching>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Watching {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum WatchFilter {
    NoPut = 0,
    NoDelete = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    /// The first one told of; 0: from now on.
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(enumeration = "WatchFilter", repeated, tag = "5")]
    pub(crate) filters: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    /// Not 0: what was to be told has been compacted away.
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum EventKind {
    Put = 0,
    Delete = 1,
}

/// What happened to a key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(enumeration = "EventKind", tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

/// `/etcdserverpb.Lease/LeaseGrant`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
    /// 0: the server chooses.
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// No shorter than what the server allows.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
    #[prost(string, tag = "4")]
    pub(crate) error: String,
}

/// `/etcdserverpb.Lease/LeaseRevoke`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
}

/// `/etcdserverpb.Lease/LeaseKeepAlive`, a stream both ways
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseKeepAliveResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// 0: the lease is over.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
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
    /// 0: there is none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
}

impl From<RangeRequest> for RequestOp {
    fn from(request: RangeRequest) -> Self {
        Self { request: Some(Request::Range(request)) }
    }
}

impl From<PutRequest> for RequestOp {
    fn from(request: PutRequest) -> Self {
        Self { request: Some(Request::Put(request)) }
    }
}

impl From<DeleteRangeRequest> for RequestOp {
    fn from(request: DeleteRangeRequest) -> Self {
        Self { request: Some(Request::DeleteRange(request)) }
    }
}

impl Compare {
    /// The key does not exist.
    pub(crate) fn is_absent(key: impl Into<Vec<u8>>) -> Self {
        Self {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Create.into(),
            key: key.into(),
            operand: Some(Operand::CreateRevision(0)),
        }
    }

    /// The key goes with this lease.
    pub(crate) fn is_with(key: impl Into<Vec<u8>>, lease: i64) -> Self {
        Self {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Lease.into(),
            key: key.into(),
            operand: Some(Operand::Lease(lease)),
        }
    }
}

/// The end of the range of all keys that begin with this; with a prefix of nothing but 0xff, or none, all keys after it.
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was exchanged with an etcd 3.4.23, in hexadecimal digits.
    fn bytes(digits: &str) -> Vec<u8> {
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    /// Reads what the server said, and sees that nothing of it was passed over.
    fn read<M: Message + Default>(digits: &str) -> M {
        let message = M::decode(bytes(digits).as_slice()).unwrap();
        assert_eq!(message.encode_to_vec(), bytes(digits));
        message
    }

    /// The header of everything that was said, but for the revision.
    macro_rules! said {
        ($revision:literal, $rest:literal) => {
            concat!("0a1a0883b4ffb1dfbca58fcc0110a69ef4d0c58197e9b60118", $revision, "2002", $rest)
        };
    }

    const LEASE: i64 = 0x1234;

    fn key_value() -> KeyValue {
        KeyValue {
            key: b"k1".to_vec(),
            create_revision: 2,
            mod_revision: 2,
            version: 1,
            value: b"me".to_vec(),
            lease: LEASE,
        }
    }

    #[test]
    fn leases_are_granted_kept_and_revoked() {
        assert_eq!(LeaseGrantRequest { ttl: 1, id: LEASE }.encode_to_vec(), bytes("080110b424"));
        let granted: LeaseGrantResponse = read(said!("01", "10b4241802"));
        // One second was asked for: it gives no less than two.
        assert_eq!((granted.id, granted.ttl), (LEASE, 2));
        assert_eq!(granted.header.unwrap().revision, 1);

        assert_eq!(LeaseKeepAliveRequest { id: LEASE }.encode_to_vec(), bytes("08b424"));
        let renewed: LeaseKeepAliveResponse = read(said!("02", "10b4241802"));
        assert_eq!((renewed.id, renewed.ttl), (LEASE, 2));

        assert_eq!(LeaseRevokeRequest { id: LEASE }.encode_to_vec(), bytes("08b424"));
        let revoked: LeaseRevokeResponse = read(said!("03", ""));
        assert_eq!(revoked.header.unwrap().raft_term, 2);
    }

    #[test]
    fn a_key_is_taken_once() {
        let take = TxnRequest {
            compare: vec![Compare::is_absent("k1")],
            success: vec![PutRequest { key: b"k1".to_vec(), value: b"me".to_vec(), lease: LEASE }.into()],
            failure: vec![RangeRequest { key: b"k1".to_vec(), ..RangeRequest::default() }.into()],
        };
        let taken = bytes("0a0810011a026b312800120d120b0a026b3112026d6518b4241a060a040a026b31");
        assert_eq!(take.encode_to_vec(), taken);
        assert_eq!(TxnRequest::decode(taken.as_slice()).unwrap(), take);

        let granted: TxnResponse = read(said!("02", "10011a0612040a021802"));
        assert!(granted.succeeded);
        assert!(matches!(granted.responses[..], [ResponseOp { response: Some(Response::Put(_)) }]));

        let refused: TxnResponse =
            read(said!("02", "1a1b0a190a02180212110a026b311002180220012a026d6530b4242001"));
        assert!(!refused.succeeded);
        let [ResponseOp { response: Some(Response::Range(found)) }] = &refused.responses[..] else {
            panic!("{refused:?}");
        };
        assert_eq!(found.kvs, [key_value()]);
    }

    #[test]
    fn keys_are_counted_found_and_deleted() {
        let range_end = prefix_end(b"k");
        let count =
            RangeRequest { key: b"k".to_vec(), range_end, count_only: true, ..RangeRequest::default() };
        assert_eq!(count.encode_to_vec(), bytes("0a016b12016c4801"));
        let counted: RangeResponse = read(said!("02", "2001"));
        assert_eq!((counted.count, counted.kvs.len()), (1, 0));

        let found: RangeResponse = read(said!("02", "12110a026b311002180220012a026d6530b4242001"));
        assert_eq!((found.count, found.kvs), (1, vec![key_value()]));

        let delete = DeleteRangeRequest { key: b"k1".to_vec(), range_end: Vec::new() };
        assert_eq!(delete.encode_to_vec(), bytes("0a026b31"));
        let deleted: DeleteRangeResponse = read(said!("03", "1001"));
        assert_eq!(deleted.deleted, 1);
    }

    #[test]
    fn the_end_of_a_key_is_watched() {
        let create = WatchCreateRequest {
            key: b"k1".to_vec(),
            range_end: Vec::new(),
            start_revision: 1,
            filters: vec![WatchFilter::NoPut.into()],
        };
        let request = WatchRequest { request: Some(Watching::Create(create)) };
        assert_eq!(request.encode_to_vec(), bytes("0a090a026b3118012a0100"));
        let created: WatchResponse = read(said!("03", "1801"));
        assert!(created.created && !created.canceled);
        let told: WatchResponse = read(said!("03", "5a0a080112060a026b311803"));
        let event = &told.events[0];
        assert_eq!(event.kind, i32::from(EventKind::Delete));
        assert_eq!(
            event.kv.as_ref().map(|kv| (kv.key.as_slice(), kv.mod_revision)),
            Some((b"k1".as_slice(), 3))
        );
    }

    #[test]
    fn fields_that_nobody_asks_for_are_skipped() {
        let said = said!("02", "1206332e342e32331880a00120a69ef4d0c58197e9b60128073002380748808001");
        let status = StatusResponse::decode(bytes(said).as_slice()).unwrap();
        assert_eq!((status.version.as_str(), status.db_size), ("3.4.23", 20_480));
        assert_eq!(status.leader, status.header.unwrap().member_id);
    }

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        assert_eq!(prefix_end(b"ab"), b"ac");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), [0]);
        assert_eq!(prefix_end(b""), [0]);
    }
}
