//! The messages of etcd's keys and watches that are used here, with the field numbers of its `rpc.proto` and
//! `kv.proto`. Fields nobody asks for are left out: a decoder skips what it does not know.

use crate::store;
use prost::bytes::Bytes;
use prost::{Enumeration, Message, Oneof};

/// What every answer begins with.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    /// Who answered.
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
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
}

/// `/etcdserverpb.KV/Range`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// Exclusive; empty: the key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    /// 0: all.
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// A frame of the log may be among them: copies share its bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {}

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
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
    Value = 3,
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
    #[prost(oneof = "Operand", tags = "5, 7")]
    pub(crate) operand: Option<Operand>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Operand {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(bytes = "vec", tag = "7")]
    Value(Vec<u8>),
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

/// `/etcdserverpb.KV/Compact`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionResponse {}

/// `/etcdserverpb.Watch/Watch`, a stream both ways
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchAsked", tags = "1, 3")]
    pub(crate) asked: Option<WatchAsked>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchAsked {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
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
    /// Whether an answer too large for one message may come in several.
    #[prost(bool, tag = "8")]
    pub(crate) fragment: bool,
}

/// Asks how far the watches are: the answer shows that somebody is there.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    /// The oldest revision there is, if what was to be watched is older; otherwise 0.
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(enumeration = "EventKind", tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Enumeration)]
#[repr(i32)]
pub(crate) enum EventKind {
    Put = 0,
    Delete = 1,
}

impl From<&store::Txn> for TxnRequest {
    fn from(txn: &store::Txn) -> Self {
        Self {
            compare: txn.compares.iter().map(Compare::from).collect(),
            success: txn.then.iter().map(RequestOp::from).collect(),
            failure: txn.otherwise.iter().map(RequestOp::from).collect(),
        }
    }
}

impl From<&store::Compare> for Compare {
    fn from(compare: &store::Compare) -> Self {
        let (target, key, operand) = match compare {
            store::Compare::Value { key, value } => {
                (CompareTarget::Value, key, Operand::Value(value.clone()))
            }
            store::Compare::Absent { key } => (CompareTarget::Create, key, Operand::CreateRevision(0)),
        };
        Self {
            result: CompareResult::Equal.into(),
            target: target.into(),
            key: key.clone().into_bytes(),
            operand: Some(operand),
        }
    }
}

impl From<&store::Op> for RequestOp {
    fn from(op: &store::Op) -> Self {
        let request = match op {
            store::Op::Put { key, value } => {
                Request::Put(PutRequest { key: key.clone().into_bytes(), value: value.clone().into() })
            }
            store::Op::Get { key } => Request::Range(RangeRequest {
                key: key.clone().into_bytes(),
                range_end: Vec::new(),
                limit: 0,
            }),
            store::Op::Delete { from, to } => Request::DeleteRange(DeleteRangeRequest {
                key: from.clone().into_bytes(),
                range_end: to.clone().into_bytes(),
            }),
        };
        Self { request: Some(request) }
    }
}

impl From<TxnResponse> for store::Stepped {
    fn from(answer: TxnResponse) -> Self {
        let revision = revision(answer.header.as_ref());
        let found = answer.responses.into_iter().filter_map(|part| match part.response {
            Some(Response::Range(range)) => Some(range.kvs.into_iter().next().map(|kv| kv.value)),
            Some(Response::Put(_) | Response::DeleteRange(_)) | None => None,
        });
        Self { held: answer.succeeded, found: found.collect(), revision }
    }
}

/// The store's revision in an answer; revisions are never negative.
pub(crate) fn revision(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.revision.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was exchanged with an etcd 3.4.23, in hexadecimal digits.
    fn bytes(digits: &str) -> Vec<u8> {
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_step_is_a_transaction_of_etcds() {
        let txn = store::Txn {
            compares: vec![store::Compare::Absent { key: "k1".into() }],
            then: vec![store::Op::Put { key: "k1".into(), value: b"me".to_vec() }],
            otherwise: vec![store::Op::Get { key: "k1".into() }],
        };
        assert_eq!(
            TxnRequest::from(&txn).encode_to_vec(),
            bytes("0a0810011a026b312800120a12080a026b3112026d651a060a040a026b31")
        );
    }

    #[test]
    fn what_a_step_found_is_in_the_order_it_was_asked_for() {
        let header = "0a1a0883b4ffb1dfbca58fcc0110a69ef4d0c58197e9b60118022002";
        let refused = bytes(&format!("{header}1a1b0a190a02180212110a026b311002180220012a026d6530b4242001"));
        let stepped = store::Stepped::from(TxnResponse::decode(refused.as_slice()).unwrap());
        assert_eq!(stepped, store::Stepped { held: false, found: vec![Some(b"me".to_vec())], revision: 2 });
    }

    #[test]
    fn a_deleted_key_has_no_value() {
        let header = "0a1a0883b4ffb1dfbca58fcc0110a69ef4d0c58197e9b60118032002";
        let told = bytes(&format!("{header}5a0a080112060a026b311803"));
        let told = WatchResponse::decode(told.as_slice()).unwrap();
        assert_eq!(told.events[0].kind, i32::from(EventKind::Delete));
        assert_eq!(told.events[0].kv.as_ref().map(|kv| kv.mod_revision), Some(3));
    }
}
