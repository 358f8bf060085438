//! The bytes of ZooKeeper's protocol: frames of a length and big-endian fields, as its `zookeeper.jute` has them.
//! Only what leases need. Knows no sockets.

use std::io::{Error, ErrorKind, Result};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum Op {
    Create = 1,
    Delete = 2,
    Exists = 3,
    GetChildren = 8,
    Ping = 11,
    Multi = 14,
    CloseSession = -11,
}

/// How a node is made; flags of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum Node {
    Persistent = 0,
    /// Goes with its session.
    Ephemeral = 1,
    /// The same, with a number that the server adds to its name.
    EphemeralSequential = 3,
}

/// A session as its server knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Granted {
    pub(super) timeout_ms: i32,
    /// 0: the session that was to be resumed is over.
    pub(super) session: i64,
    pub(super) password: Vec<u8>,
}

/// What every answer begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReplyHeader {
    pub(super) xid: i32,
    pub(super) error: i32,
}

/// What the server says unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WatchedEvent {
    pub(super) kind: i32,
    pub(super) path: String,
}

/// Fields of what arrived, one after the other.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The xid of pings and of their answers.
pub(super) const PING_XID: i32 = -2;
/// The xid of what is said unasked.
pub(super) const EVENT_XID: i32 = -1;
pub(super) const NO_NODE: i32 = -101;
pub(super) const NODE_EXISTS: i32 = -110;
/// The kind of event that says that a node is gone.
pub(super) const NODE_DELETED: i32 = 2;
/// Whatever its version.
const ANY_VERSION: i32 = -1;
/// In place of an operation: the end of a list, or an error.
const NONE: i32 = -1;
const ALL_PERMISSIONS: i32 = 31;
/// A frame is no longer than what the server sends by default.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Asks for a session, or for one that is known to go on.
pub(super) fn put_connect(timeout_ms: i32, known: Option<&Granted>, out: &mut Vec<u8>) {
    put_frame(out, |out| {
        put_i32(0, out); // version of the protocol
        put_i64(0, out); // last zxid seen
        put_i32(timeout_ms, out);
        put_i64(known.map_or(0, |known| known.session), out);
        put_bytes(known.map_or(&[0; 16], |known| &known.password), out);
        out.push(0); // not read-only
    });
}

pub(super) fn put_create(xid: i32, path: &[u8], node: Node, out: &mut Vec<u8>) {
    put_frame(out, |out| {
        put_header(xid, Op::Create, out);
        put_create_body(path, node, out);
    });
}

pub(super) fn put_delete(xid: i32, path: &[u8], out: &mut Vec<u8>) {
    put_frame(out, |out| {
        put_header(xid, Op::Delete, out);
        put_delete_body(path, out);
    });
}

/// `Exists` or `GetChildren`.
pub(super) fn put_read(xid: i32, op: Op, path: &[u8], watch: bool, out: &mut Vec<u8>) {
    put_frame(out, |out| {
        put_header(xid, op, out);
        put_bytes(path, out);
        out.push(watch.into());
    });
}

pub(super) fn put_ping(out: &mut Vec<u8>) {
    put_frame(out, |out| put_header(PING_XID, Op::Ping, out));
}

pub(super) fn put_close(xid: i32, out: &mut Vec<u8>) {
    put_frame(out, |out| put_header(xid, Op::CloseSession, out));
}

/// Ephemeral nodes, all or none.
pub(super) fn put_create_all(xid: i32, paths: &[Vec<u8>], out: &mut Vec<u8>) {
    put_multi(xid, Op::Create, paths, out, |path, out| put_create_body(path, Node::Ephemeral, out));
}

/// All or none.
pub(super) fn put_delete_all(xid: i32, paths: &[Vec<u8>], out: &mut Vec<u8>) {
    put_multi(xid, Op::Delete, paths, out, put_delete_body);
}

fn put_multi(xid: i32, op: Op, paths: &[Vec<u8>], out: &mut Vec<u8>, put_body: fn(&[u8], &mut Vec<u8>)) {
    put_frame(out, |out| {
        put_header(xid, Op::Multi, out);
        for path in paths {
            put_multi_header(op as i32, false, out);
            put_body(path, out);
        }
        put_multi_header(NONE, true, out);
    });
}

fn put_multi_header(op: i32, is_last: bool, out: &mut Vec<u8>) {
    put_i32(op, out);
    out.push(is_last.into());
    put_i32(NONE, out); // no error
}

fn put_header(xid: i32, op: Op, out: &mut Vec<u8>) {
    put_i32(xid, out);
    put_i32(op as i32, out);
}

fn put_create_body(path: &[u8], node: Node, out: &mut Vec<u8>) {
    put_bytes(path, out);
    put_bytes(&[], out); // no data
    put_i32(1, out); // one entry says who may do what: all may everything
    put_i32(ALL_PERMISSIONS, out);
    put_bytes(b"world", out);
    put_bytes(b"anyone", out);
    put_i32(node as i32, out);
}

fn put_delete_body(path: &[u8], out: &mut Vec<u8>) {
    put_bytes(path, out);
    put_i32(ANY_VERSION, out);
}

/// Puts the length in front of what is put.
fn put_frame(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    put_i32(0, out);
    put(out);
    let length = (out.len() - begin - 4) as i32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_i32(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_i64(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_i32(bytes.len() as i32, out);
    out.extend_from_slice(bytes);
}

/// The first whole frame of what arrived, without its length; `None`: there is none yet.
pub(super) fn first_frame(arrived: &[u8]) -> Result<Option<&[u8]>> {
    let Some((length, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidData, "a frame is too long"));
    }
    Ok(rest.get(..length))
}

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a [u8]) -> Self {
        Self { rest: frame }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn granted(&mut self) -> Result<Granted> {
        self.i32()?; // version of the protocol
        Ok(Granted { timeout_ms: self.i32()?, session: self.i64()?, password: self.bytes()?.to_vec() })
    }

    pub(super) fn header(&mut self) -> Result<ReplyHeader> {
        let xid = self.i32()?;
        self.i64()?; // zxid
        Ok(ReplyHeader { xid, error: self.i32()? })
    }

    /// Whether what follows a header is the result of a `Multi` that was not carried out.
    pub(super) fn is_undone(&mut self) -> bool {
        self.i32().is_ok_and(|op| op == NONE)
    }

    pub(super) fn event(&mut self) -> Result<WatchedEvent> {
        let kind = self.i32()?;
        self.i32()?; // state of the session
        Ok(WatchedEvent { kind, path: self.text()? })
    }

    /// How many children a node has, from its `Stat`.
    pub(super) fn children_count(&mut self) -> Result<i32> {
        // czxid, mzxid, ctime, mtime; version, cversion, aversion; ephemeralOwner; dataLength.
        self.skip(4 * 8 + 3 * 4 + 8 + 4)?;
        self.i32()
    }

    pub(super) fn texts(&mut self) -> Result<Vec<String>> {
        let count = self.i32()?;
        (0..count).map(|_| self.text()).collect()
    }

    pub(super) fn text(&mut self) -> Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        // −1 means none.
        let length = usize::try_from(self.i32()?).unwrap_or(0);
        self.skip(length)
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.chunk()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.chunk()?))
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or_else(too_short)?;
        self.rest = rest;
        Ok(*chunk)
    }

    fn skip(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(too_short)?;
        self.rest = rest;
        Ok(bytes)
    }
}

fn too_short() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "a frame is too short")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was exchanged with a ZooKeeper 3.8.0, in hexadecimal digits.
    fn bytes(digits: &str) -> Vec<u8> {
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
    }

    fn put(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    /// The first frame, whole.
    fn frame(digits: &str) -> Vec<u8> {
        first_frame(&bytes(digits)).unwrap().unwrap().to_vec()
    }

    const CONNECTED: &str =
        "00000025000000000000271001000391e5a40000000000101e0c3a75534ed70c2cb78fbe54cef4db00";

    #[test]
    fn a_session_is_asked_for_and_resumed() {
        let fresh = put(|out| put_connect(10_000, None, out));
        assert_eq!(
            fresh,
            bytes(
                "0000002d000000000000000000000000000027100000000000000000000000100000000000000000000000000000000000"
            )
        );
        let granted = Reader::new(&frame(CONNECTED)).granted().unwrap();
        assert_eq!((granted.timeout_ms, granted.session), (10_000, 0x0100_0391_e5a4_0000));
        let resumed = put(|out| put_connect(4_000, Some(&granted), out));
        assert_eq!(resumed[20..48], bytes("01000391e5a40000000000101e0c3a75534ed70c2cb78fbe54cef4db"));
        assert_eq!(resumed.len(), fresh.len());
    }

    #[test]
    fn requests_are_as_the_server_took_them() {
        let all = put(|out| {
            put_create(1, b"/a", Node::Ephemeral, out);
            put_read(3, Op::Exists, b"/", false, out);
            put_read(8, Op::Exists, b"/a", true, out);
            put_read(4, Op::GetChildren, b"/", false, out);
            put_ping(out);
            put_delete(9, b"/a", out);
            put_close(11, out);
        });
        let taken = [
            "000000310000000100000001000000022f6100000000000000010000001f00000005776f726c6400000006616e796f6e6500000001",
            "0000000e0000000300000003000000012f00",
            "0000000f0000000800000003000000022f6101",
            "0000000e0000000400000008000000012f00",
            "00000008fffffffe0000000b",
            "000000120000000900000002000000022f61ffffffff",
            "000000080000000bfffffff5",
        ];
        assert_eq!(all, bytes(&taken.concat()));
    }

    #[test]
    fn bundles_are_as_the_server_took_them() {
        let paths = [b"/b".to_vec(), b"/c".to_vec()];
        let both = put(|out| {
            put_create_all(5, &paths, out);
            put_delete_all(10, &paths, out);
        });
        let taken = [
            "00000075000000050000000e0000000100ffffffff000000022f6200000000000000010000001f00000005776f726c64",
            "00000006616e796f6e65000000010000000100ffffffff000000022f6300000000000000010000001f00000005776f72",
            "6c6400000006616e796f6e6500000001ffffffff01ffffffff",
            "000000370000000a0000000e0000000200ffffffff000000022f62ffffffff0000000200ffffffff000000022f63ffff",
            "ffffffffffff01ffffffff",
        ];
        assert_eq!(both, bytes(&taken.concat()));
    }

    #[test]
    fn answers_are_read() {
        let created = frame("0000001600000001000000000000000200000000000000022f61");
        let mut reader = Reader::new(&created);
        assert_eq!(reader.header().unwrap(), ReplyHeader { xid: 1, error: 0 });
        assert_eq!(reader.text().unwrap(), "/a");

        let refused = frame("00000010000000020000000000000003ffffff92");
        assert_eq!(Reader::new(&refused).header().unwrap().error, NODE_EXISTS);

        let root = frame(concat!(
            "00000054000000030000000000000003000000000000000000000000000000000000000000000000000000000000",
            "000000000000000000000000000000000000000000000000000000000000000000020000000000000002",
        ));
        let mut reader = Reader::new(&root);
        assert_eq!(reader.header().unwrap().xid, 3);
        assert_eq!(reader.children_count().unwrap(), 2);

        let listed =
            frame("0000002600000004000000000000000300000000000000020000000161000000097a6f6f6b6565706572");
        let mut reader = Reader::new(&listed);
        reader.header().unwrap();
        assert_eq!(reader.texts().unwrap(), ["a", "zookeeper"]);

        let event = frame("0000001effffffffffffffffffffffff000000000000000200000003000000022f61");
        let mut reader = Reader::new(&event);
        assert_eq!(reader.header().unwrap().xid, EVENT_XID);
        assert_eq!(reader.event().unwrap(), WatchedEvent { kind: NODE_DELETED, path: "/a".to_owned() });
    }

    #[test]
    fn a_bundle_that_was_not_carried_out_is_told_from_one_that_was() {
        let is_undone = |digits| {
            let frame = frame(digits);
            let mut reader = Reader::new(&frame);
            assert_eq!(reader.header().unwrap().error, 0);
            reader.is_undone()
        };
        assert!(!is_undone(concat!(
            "0000003700000005000000000000000400000000000000010000000000000000022f62000000010000000000",
            "000000022f63ffffffff01ffffffff"
        )));
        assert!(is_undone(concat!(
            "0000003300000006000000000000000500000000ffffffff000000000000000000ffffffff00ffffff92ffff",
            "ff92ffffffff01ffffffff"
        )));
        // A ping is answered with nothing.
        assert!(!is_undone("00000010fffffffe000000000000000300000000"));
    }

    #[test]
    fn half_a_frame_is_none_and_a_monstrous_one_an_error() {
        let whole = bytes(CONNECTED);
        for end in 0..whole.len() {
            assert_eq!(first_frame(&whole[..end]).unwrap(), None);
        }
        assert!(first_frame(&[0x7f, 0, 0, 0]).is_err());
        assert!(first_frame(&[0xff, 0, 0, 0]).is_err());
        assert!(Reader::new(&[0, 0]).header().is_err());
    }
}
