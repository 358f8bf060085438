//! Bytes: golden files that never change, and readers that take any bytes without panicking.

use crate::samples;
use crate::script::bytes_of;
use proptest::prelude::*;
use std::path::PathBuf;
use tenure_kernel::codec::{
    DecodeError, FIRST_FORMAT, FORMAT, decode_event, decode_note, decode_state, encode_action, encode_event,
    encode_note,
};
use tenure_kernel::*;

fn event_bytes(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_event(event, FORMAT, &mut bytes);
    bytes
}

fn note_bytes(note: &Note) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_note(note, &mut bytes);
    bytes
}

fn golden_path(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "v1", name].iter().collect()
}

/// The golden bytes of `name`. With `UPDATE_GOLDEN=1` a missing file is written; one that exists never is.
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = golden_path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, bytes).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}; see the README beside it"))
}

#[test]
fn golden_events_are_read_and_written_the_same() {
    let events = samples::events();
    let kinds: Vec<ChangeKind> = events.iter().map(|event| event.change.kind()).collect();
    assert_eq!(kinds, ChangeKind::ALL);
    for (place, event) in events.iter().enumerate() {
        let name = format!("event-{:02}-{}.bin", place + 1, event.change.kind().as_str());
        let bytes = golden(&name, &event_bytes(event));
        assert_eq!(bytes[0], place as u8 + 1, "the code of {name}");
        assert_eq!(decode_event(&bytes).as_ref(), Ok(event), "{name}");
        assert_eq!(event_bytes(event), bytes, "{name}");
    }
}

#[test]
fn a_session_that_accepts_hand_overs_is_read_and_written_the_same() {
    let event = samples::accepting_session();
    let bytes = golden("event-11-session_opened-accepting.bin", &event_bytes(&event));
    assert_eq!(bytes, b"\x0b\x00\x07\x01h\x04\xe8\x07\x00\x05local\x07poll/g/");
    assert_eq!(decode_event(&bytes).as_ref(), Ok(&event));
    assert_eq!(event_bytes(&event), bytes);
    let mut kernel = Kernel::new(Setup::plain());
    kernel.evolve(Stamp { lsn: Lsn(1), tick: Tick(1) }, &event);
    let state = bytes_of(&kernel);
    let loaded = decode_state(Setup::plain(), &state).unwrap();
    assert_eq!(loaded.session(SessionId(7)).unwrap().accepts_handover(), Some("poll/g/"));
    assert_eq!(bytes_of(&loaded), state);
}

/// Fingerprints in logs are made from these bytes; see `docs/internals/formats/operations.md`.
#[test]
fn the_bytes_of_an_action_never_change() {
    let bytes = |action: &Action| {
        let mut bytes = Vec::new();
        encode_action(action, &mut bytes);
        bytes
    };
    let token = Token { lease: LeaseId(7), epoch: Epoch(2), holder: Some("al".into()) };
    let token_bytes = b"\x00\x07\x02\x01\x02al";
    assert_eq!(bytes(&Action::Activate(token.clone())), [&b"\x02"[..], token_bytes].concat());
    let rebind = Rebind { holder: Some("bob".into()), ..Rebind::keeping(token) };
    let rebound = [&b"\x04"[..], token_bytes, b"\x01\x03bob\x00\x00\x00"].concat();
    assert_eq!(bytes(&Action::Rebind(rebind)), rebound);
    let mut grant = Grant::new(Bundle::of(&["a"]), "al", Policy::heartbeat(1_000, 0));
    grant.start = Start::Reserved { ttl_ms: 5 };
    grant.alternatives = vec![Bundle::any_of("p", 2)];
    let policy = b"\x02\xe8\x07\x00\x00\x00\x01\x01\x00\x00\x00\x05local";
    let granted =
        [&b"\x01\x01\x01\x01a\x02al\x01\x05"[..], policy, b"\x00\x00\x00\x01\x01\x02\x01p\x02"].concat();
    assert_eq!(bytes(&Action::Grant(grant.clone())), granted);
    // The wall clock is for people: a retry comes later.
    grant.wall_ms = 1;
    assert_eq!(bytes(&Action::Grant(grant)), granted);
    let steer = Steer {
        lease: LeaseId(7),
        epoch: None,
        actor: Actor::Operator("root".into()),
        text: "t".into(),
        silent: false,
    };
    assert_eq!(bytes(&Action::Drain(steer)), b"\x08\x00\x07\x00\x03\x04root\x01t");
    assert_eq!(bytes(&Action::RemovePool { name: "p".into(), force: true }), b"\x0b\x01p\x01");
}

#[test]
fn golden_notes_are_read_and_written_the_same() {
    for (place, note) in samples::notes().iter().enumerate() {
        let name = format!("note-{:02}-{}.bin", place + 1, note.kind());
        let bytes = golden(&name, &note_bytes(note));
        assert_eq!(bytes[0], place as u8 + 1, "the code of {name}");
        assert_eq!(decode_note(&bytes), Ok(Some(*note)), "{name}");
        assert_eq!(note_bytes(note), bytes, "{name}");
    }
}

#[test]
fn the_golden_state_is_read_and_written_the_same() {
    let runner = samples::rich_state();
    let bytes = golden("state-rich.bin", &bytes_of(&runner.kernel));
    assert_eq!(bytes_of(&runner.kernel), bytes);
    let loaded = decode_state(runner.setup.clone(), &bytes).unwrap();
    loaded.check_invariants().unwrap();
    assert_eq!(bytes_of(&loaded), bytes);
    let empty = golden("state-empty.bin", &bytes_of(&Kernel::new(Setup::plain())));
    assert_eq!(bytes_of(&decode_state(Setup::plain(), &empty).unwrap()), empty);
    assert_eq!(bytes_of(&Kernel::new(Setup::plain())), empty);
}

#[test]
fn a_loaded_state_answers_like_the_one_it_was() {
    let runner = samples::rich_state();
    let (live, setup) = (&runner.kernel, runner.setup.clone());
    let loaded = decode_state(setup, &bytes_of(live)).unwrap();
    let now = live.applied().tick;
    assert_eq!(live.applied(), loaded.applied());
    assert_eq!(live.retention(), loaded.retention());
    assert_eq!(live.watermark(), loaded.watermark());
    assert_eq!(live.next_deadline(), loaded.next_deadline());
    assert_eq!(live.counts(), loaded.counts());
    assert_eq!(live.retained_count(), loaded.retained_count());
    assert_eq!(live.operation_count(), loaded.operation_count());
    assert_eq!(live.holder_count(), loaded.holder_count());
    assert!(live.pools().eq(loaded.pools()));
    assert!(live.notices().eq(loaded.notices()));
    for lsn in 0..=live.applied().lsn.0 + 1 {
        let id = LeaseId::new(0, Lsn(lsn));
        let told = |kernel: &Kernel| match kernel.lease(id, now) {
            Found::Live(view) => format!(
                "{:?} {} {} {} {:?} {:?} {} {:?} {:?} {}",
                view.state(),
                view.epoch(),
                view.fence(),
                view.holder(),
                view.members().collect::<Vec<_>>(),
                view.policy(),
                view.changed_lsn(),
                view.attachment(),
                view.face_data(),
                view.granted_wall_ms()
            ),
            Found::Ended(ended) => format!("{ended:?}"),
            Found::Retired => "retired".to_owned(),
            Found::NotFound => "not found".to_owned(),
        };
        assert_eq!(told(live), told(&loaded));
    }
    for session in live.sessions_from(SessionId(0)) {
        let twin = loaded.session(session.id()).unwrap();
        assert_eq!((session.holder(), session.kind()), (twin.holder(), twin.kind()));
        assert_eq!((session.ttl_ms(), session.grace_ms()), (twin.ttl_ms(), twin.grace_ms()));
        assert_eq!((session.closed(), session.principal()), (twin.closed(), twin.principal()));
        assert_eq!(session.opened_tick(), twin.opened_tick());
        assert!(session.drained().eq(twin.drained()));
        let losses = |view: SessionView<'_>| view.losses_after(Lsn(3)).unwrap().collect::<Vec<_>>();
        assert_eq!(losses(session), losses(twin));
        assert_eq!(session.lease_count(), twin.lease_count());
    }
}

#[test]
fn every_enum_value_comes_back_from_its_code() {
    for event in samples::more_events() {
        assert_eq!(decode_event(&event_bytes(&event)), Ok(event));
    }
}

#[test]
fn an_unknown_code_is_named_and_zero_is_never_one() {
    for code in [18, 255] {
        assert_eq!(decode_event(&[code, 0]), Err(DecodeError::Unknown { what: "event", code }));
    }
    // Session 1 closed, with a reason that does not exist.
    assert_eq!(decode_event(&[12, 0, 1, 12]), Err(DecodeError::Unknown { what: "reason", code: 12 }));
    assert_eq!(decode_event(&[12, 0, 1, 0]), Err(DecodeError::Unknown { what: "reason", code: 0 }));
    assert_eq!(decode_event(&[12, 2]), Err(DecodeError::Unknown { what: "flag", code: 2 }));
    // Drained by an actor that does not exist; revoked on evidence that does not exist.
    assert_eq!(decode_event(&[5, 0, 0, 1, 4]), Err(DecodeError::Unknown { what: "actor", code: 4 }));
    let revoked = [8, 0, 0, 1, 2, 1, 0, 2, 6];
    assert_eq!(decode_event(&revoked), Err(DecodeError::Unknown { what: "evidence", code: 6 }));
    for code in [0, 2] {
        assert_eq!(
            decode_state(Setup::plain(), &[code]).unwrap_err(),
            DecodeError::Unknown { what: "state version", code }
        );
    }
}

#[test]
fn a_newer_format_is_named_with_the_newest_that_is_read() {
    let newer = DecodeError::Newer { found: FORMAT + 1, reads: FORMAT };
    let found = u8::try_from(FORMAT + 1).unwrap();
    // Whatever follows: nothing of a newer format is known but its number.
    assert_eq!(decode_event(&[0, found, 13, 0, 1, b'p', 3]), Err(newer));
    assert_eq!(decode_event(&[0, found]), Err(newer));
    assert_eq!(decode_state(Setup::plain(), &[found]).unwrap_err(), newer);
    assert_eq!(
        newer.to_string(),
        "format 3 is newer than format 2, the newest that this program reads: use a newer tenure"
    );
    // What is spelled in the first format does not say so, and so far nothing is spelled in another one.
    for format in 0..=FORMAT {
        let named = [0, u8::try_from(format).unwrap(), 13, 0, 1, b'p', 3];
        assert_eq!(decode_event(&named), Err(DecodeError::Range), "{format}");
    }
    for event in samples::events().iter().chain(&samples::more_events()) {
        let mut first = Vec::new();
        encode_event(event, FIRST_FORMAT, &mut first);
        assert_eq!(event_bytes(event), first);
    }
    assert_eq!(decode_event(&[0]), Err(DecodeError::Short));
}

#[test]
fn an_unknown_note_is_skipped_and_a_broken_one_refused() {
    assert_eq!(decode_note(&[8, 1, 2, 3]), Ok(None));
    assert_eq!(decode_note(&[0]), Ok(None));
    assert_eq!(decode_note(&[]), Err(DecodeError::Short));
    assert_eq!(decode_note(&[5, 0]), Err(DecodeError::Trailing(1)));
    assert_eq!(decode_note(&[2, 3, 0]), Err(DecodeError::Unknown { what: "subject", code: 3 }));
    let alive_too_large = [4, 1, 0xff, 0xff, 0xff, 0xff, 0x10];
    assert_eq!(decode_note(&alive_too_large), Err(DecodeError::Range));
}

#[test]
fn numbers_have_one_spelling() {
    let trimmed = |number: &[u8]| decode_event(&[&[16, 0], number].concat());
    let below = |lsn| Ok(Event { operation: None, change: Change::Trimmed { below: Lsn(lsn) } });
    assert_eq!(trimmed(&[0]), below(0));
    assert_eq!(trimmed(&[0x7f]), below(127));
    assert_eq!(trimmed(&[0x80, 1]), below(128));
    assert_eq!(trimmed(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), below(u64::MAX));
    assert_eq!(trimmed(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1]), below(1 << 63));
    for longer in [&[0x80, 0][..], &[0x81, 0], &[0x80, 0x80, 0], &[0xff, 0x80, 0]] {
        assert_eq!(trimmed(longer), Err(DecodeError::Range), "{longer:?}");
    }
    for larger in [2, 3, 0x7f, 0x80, 0x81] {
        let bytes = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, larger];
        assert_eq!(trimmed(&[&bytes[..], &[0]].concat()), Err(DecodeError::Range), "{larger}");
    }
    // A size has four bytes of value.
    let defined = |number: &[u8]| decode_event(&[&[13, 0, 1, b'p'], number].concat());
    assert!(defined(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_ok());
    assert_eq!(defined(&[0x80, 0x80, 0x80, 0x80, 0x10]), Err(DecodeError::Range));
}

#[test]
fn lengths_are_checked_before_they_are_used() {
    // A name of 2^63 bytes; one of two bytes of which one is there.
    let long = [14, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
    assert_eq!(decode_event(&long), Err(DecodeError::Short));
    assert_eq!(decode_event(&[14, 0, 2, b'p']), Err(DecodeError::Short));
    assert_eq!(decode_event(&[14, 0, 1, 0xff]), Err(DecodeError::Text));
    // A grant of no members, and one of sixty-five.
    assert_eq!(decode_event(&[1, 0, 1, b'h', 0]), Err(DecodeError::Range));
    let mut many = vec![1, 0, 1, b'h', 65];
    many.extend([1, b'm'].repeat(65));
    assert_eq!(decode_event(&many), Err(DecodeError::Range));
}

#[test]
fn every_truncation_is_refused() {
    for event in samples::events().iter().chain(&samples::more_events()) {
        let bytes = event_bytes(event);
        for length in 0..bytes.len() {
            assert!(decode_event(&bytes[..length]).is_err(), "{event:?} cut to {length}");
        }
    }
    for note in samples::notes() {
        let bytes = note_bytes(&note);
        for length in 0..bytes.len() {
            assert!(decode_note(&bytes[..length]).is_err(), "{note:?} cut to {length}");
        }
    }
    let runner = samples::rich_state();
    let bytes = bytes_of(&runner.kernel);
    for length in 0..bytes.len() {
        assert!(decode_state(runner.setup.clone(), &bytes[..length]).is_err(), "state cut to {length}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    for event in samples::events() {
        let bytes = [event_bytes(&event), vec![0]].concat();
        assert_eq!(decode_event(&bytes), Err(DecodeError::Trailing(1)));
    }
    let runner = samples::rich_state();
    let bytes = [bytes_of(&runner.kernel), vec![0, 0]].concat();
    assert_eq!(decode_state(runner.setup, &bytes).unwrap_err(), DecodeError::Trailing(2));
}

/// The section of former holders, in literal bytes: absent while there is none, and in states of before it.
#[test]
fn former_holders_are_the_last_section_while_they_may_act() {
    let mut kernel = Kernel::new(Setup::plain());
    let at = |kernel: &mut Kernel, lsn: u64, tick: u64, change: Change| {
        kernel.evolve(Stamp { lsn: Lsn(lsn), tick: Tick(tick) }, &Event { operation: None, change });
    };
    let granted = Granted {
        holder: "a".into(),
        members: [Text::from("r")].into_iter().collect(),
        deadline: None,
        policy: Policy::heartbeat(20_000, 0),
        face_data: Vec::new(),
        attachment: Vec::new(),
        wall_ms: 0,
    };
    at(&mut kernel, 1, 0, Change::Granted(granted));
    let rebound = |epoch: u64, ttl_ms: u32| {
        Change::Rebound(Rebound {
            lease: LeaseId(1),
            epoch: Epoch(epoch),
            holder: "b".into(),
            policy: Some(Policy::heartbeat(ttl_ms, 0)),
            attachment: None,
            face_data: None,
            taken_over: false,
        })
    };
    at(&mut kernel, 2, 5, rebound(2, 1_000));
    at(&mut kernel, 3, 6, rebound(3, 2_000));
    let bytes = bytes_of(&kernel);
    // Byte 1, one lease, its lsn, tick 5 + 20,000.
    let section = [1, 1, 1, 0xa5, 0x9c, 0x01];
    assert!(bytes.ends_with(&section), "{bytes:x?}");
    let read = decode_state(Setup::plain(), &bytes).unwrap();
    assert_eq!(read.live(LeaseId(1)).unwrap().former_until(), Some(Tick(20_005)));
    assert_eq!(bytes_of(&read), bytes);
    let before = decode_state(Setup::plain(), &bytes[..bytes.len() - section.len()]).unwrap();
    assert_eq!(before.live(LeaseId(1)).unwrap().former_until(), None);
    let nobodys = [&bytes[..bytes.len() - section.len()], &[1, 1, 2, 9]].concat();
    assert!(decode_state(Setup::plain(), &nobodys).is_err(), "a former holder of no lease");
    // Once the tick has come nothing of it is left.
    at(
        &mut kernel,
        4,
        20_005,
        Change::Amended(Amended { lease: LeaseId(1), attachment: None, face_data: None }),
    );
    assert!(!bytes_of(&kernel).ends_with(&section));
    assert_eq!(
        decode_state(Setup::plain(), &bytes_of(&kernel)).unwrap().live(LeaseId(1)).unwrap().former_until(),
        None
    );
}

#[test]
fn a_state_larger_than_one_piece_is_written_in_pieces() {
    let mut kernel = Kernel::new(Setup::plain());
    for lsn in 1..=60_u64 {
        let grant = Granted {
            holder: "h".into(),
            members: [Text::from(format!("r{lsn}"))].into_iter().collect(),
            deadline: None,
            policy: Policy::permanent(),
            face_data: vec![1; 4096],
            attachment: vec![2; 4096],
            wall_ms: 0,
        };
        let event = Event { operation: None, change: Change::Granted(grant) };
        kernel.evolve(Stamp { lsn: Lsn(lsn), tick: Tick(0) }, &event);
    }
    let (mut pieces, mut largest) = (0, 0);
    codec::encode_state(&kernel, &mut |piece| {
        pieces += 1;
        largest = largest.max(piece.len());
    });
    assert_eq!(pieces, 8);
    assert!((64 << 10..80 << 10).contains(&largest), "{largest}");
    let bytes = bytes_of(&kernel);
    assert_eq!(bytes_of(&decode_state(Setup::plain(), &bytes).unwrap()), bytes);
}

/// Reads the bytes of a state; what is accepted must at least survive the scan without a panic.
fn try_state(setup: &Setup, bytes: &[u8]) {
    if let Ok(kernel) = decode_state(setup.clone(), bytes) {
        let _ = kernel.check_invariants();
    }
}

/// The bytes of a state with these leases, sessions and pools, put together by hand.
struct Parts {
    pools: Vec<Vec<u8>>,
    sessions: Vec<Vec<u8>>,
    leases: Vec<Vec<u8>>,
    ended: Vec<Vec<u8>>,
}

impl Parts {
    fn none() -> Self {
        Self { pools: Vec::new(), sessions: Vec::new(), leases: Vec::new(), ended: Vec::new() }
    }

    fn read(&self) -> Result<Kernel, DecodeError> {
        // Version, position 9, tick 9, four retention numbers, watermark, trimmed below.
        let mut bytes = vec![1, 9, 9, 100, 100, 100, 100, 0, 0];
        for table in [&self.pools, &self.sessions, &self.leases, &self.ended] {
            bytes.push(table.len() as u8);
            bytes.extend(table.concat());
        }
        bytes.extend([0, 0]);
        decode_state(Setup::plain(), &bytes)
    }
}

/// An active lease of position `lsn` on one-letter resources.
fn lease(lsn: u8, members: &[u8], session: Option<u8>) -> Vec<u8> {
    let mut bytes = vec![lsn, 1, lsn, 0, 0, 2, 0, 0, 1, b'h', members.len() as u8];
    bytes.extend(members.iter().flat_map(|name| [1, *name]));
    bytes.extend([3, 0, 0, 0, 0, 1, 1, 0, 0]);
    bytes.extend(session.map_or(vec![0], |session| vec![1, session]));
    bytes.extend([1, b'p', 0, 0, 0]);
    bytes
}

fn session(id: u8) -> Vec<u8> {
    vec![id, 1, b'h', 1, 0, 0, 1, b'p', 1, 0, 0, 1, 1, 0]
}

fn ended(lsn: u8, state: u8) -> Vec<u8> {
    vec![lsn, 9, lsn, 2, 50, state, 1, 1]
}

#[test]
fn a_state_that_contradicts_itself_is_refused() {
    let contradiction = |parts: Parts| match parts.read() {
        Ok(_) => panic!("accepted"),
        Err(DecodeError::Inconsistent(what)) => what,
        Err(error) => panic!("{error}"),
    };
    let whole = Parts {
        pools: vec![vec![1, b'p', 3, 0]],
        sessions: vec![session(4)],
        leases: vec![lease(2, b"ab", None), lease(3, b"c", Some(4))],
        ended: vec![ended(1, 4)],
    };
    whole.read().unwrap().check_invariants().unwrap();

    let twice = Parts { sessions: vec![session(4), session(4)], ..Parts::none() };
    assert_eq!(contradiction(twice), "a session occurs twice");
    let order = Parts { leases: vec![lease(3, b"a", None), lease(2, b"b", None)], ..Parts::none() };
    assert_eq!(contradiction(order), "leases are not in order");
    let same = Parts { leases: vec![lease(3, b"a", None), lease(3, b"b", None)], ..Parts::none() };
    assert_eq!(contradiction(same), "leases are not in order");
    let future = Parts { leases: vec![lease(10, b"a", None)], ..Parts::none() };
    assert_eq!(contradiction(future), "leases are not in order");
    let newest = Parts { leases: vec![lease(9, b"a", None)], ..Parts::none() };
    assert!(newest.read().is_ok());
    let shared = Parts { leases: vec![lease(2, b"a", None), lease(3, b"ba", None)], ..Parts::none() };
    assert_eq!(contradiction(shared), "a resource is in two leases");
    let stray = Parts { leases: vec![lease(2, b"a", Some(4))], ..Parts::none() };
    assert_eq!(contradiction(stray), "a lease names a session that is not there");
    let double = Parts { leases: vec![lease(2, b"aba", None)], ..Parts::none() };
    assert_eq!(contradiction(double), "a lease names a member twice");
    let again = Parts { ended: vec![ended(1, 4), ended(1, 5)], ..Parts::none() };
    assert_eq!(contradiction(again), "an ended lease occurs twice");

    let living = Parts { leases: vec![lease(2, b"a", None)], ended: vec![ended(2, 4)], ..Parts::none() };
    assert_eq!(contradiction(living), "an ended lease occurs twice");

    let broken = |parts: Parts| parts.read().unwrap().check_invariants().unwrap_err().rule;
    let undead = Parts { ended: vec![ended(2, 1)], ..Parts::none() };
    assert_eq!(broken(undead), "a terminal lease is terminal");
    let unused = Parts { pools: vec![vec![1, b'p', 3, 1]], ..Parts::none() };
    assert_eq!(broken(unused), "a removed pool is in use");
    let mut closed = session(4);
    closed[10] = 1;
    closed.insert(11, 1);
    let closed = Parts { sessions: vec![closed], ..Parts::none() };
    assert_eq!(broken(closed), "a closed session has leases left");
    let mut disorder = session(4);
    disorder.pop();
    disorder.extend([2, 0, 1, 1, 5, 0, 2, 1, 4]);
    let disorder = Parts { sessions: vec![disorder], ..Parts::none() };
    assert_eq!(broken(disorder), "losses are in order");
    let largest = Parts { pools: vec![vec![1, b'p', 0x80, 0x80, 4, 0]], ..Parts::none() };
    assert_eq!(largest.read().unwrap().pool("p").unwrap().size, 65_536);
    let oversized = Parts { pools: vec![vec![1, b'p', 0x81, 0x80, 4, 0]], ..Parts::none() };
    assert_eq!(oversized.read().unwrap_err(), DecodeError::Range);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(event) = decode_event(&bytes) {
            prop_assert_eq!(event_bytes(&event), bytes.clone(), "one spelling per event");
        }
        if let Ok(Some(note)) = decode_note(&bytes) {
            prop_assert_eq!(note_bytes(&note), bytes.clone(), "one spelling per note");
        }
        try_state(&Setup::plain(), &bytes);
        try_state(&Setup::plain(), &[&[1], &bytes[..]].concat());
    }

    #[test]
    fn mutated_events_are_read_without_a_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut events = samples::events();
        events.extend(samples::more_events());
        let mut bytes = event_bytes(&events[which.index(events.len())]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(event) = decode_event(&bytes) {
            prop_assert_eq!(event_bytes(&event), bytes, "one spelling per event");
        }
    }
}

#[test]
fn mutated_states_are_read_without_a_panic() {
    let runner = samples::rich_state();
    let bytes = bytes_of(&runner.kernel);
    for place in 0..bytes.len() {
        for byte in [0, 1, 2, 3, 0x7f, 0x80, 0xff, bytes[place].wrapping_add(1), bytes[place] ^ 0x10] {
            let mut mutated = bytes.clone();
            mutated[place] = byte;
            try_state(&runner.setup, &mutated);
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    assert_eq!(DecodeError::Short.to_string(), "the bytes end in the middle of a field");
    assert_eq!(DecodeError::Unknown { what: "event", code: 99 }.to_string(), "unknown event code 99");
    assert_eq!(DecodeError::Trailing(3).to_string(), "3 bytes are left over");
}
