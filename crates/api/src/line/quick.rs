//! The answers that are most of what a busy daemon says, written without going through serde, which looks at every
//! letter of every key again. Byte for byte what serde writes; a test holds the two against each other.

use super::{Answer, AnswerLine, Tag};
use crate::lease::{Application, DrainCause, Lease, Liveness, Mode, Renewed, State};

impl AnswerLine {
    /// Appends the line with its end.
    ///
    /// # Panics
    /// Never: every answer can be written.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.answer {
            Answer::Acquired(body) => {
                beside_tag(out, b"{\"acquired\":", self.tag.as_ref(), |out| lease(out, body))
            }
            Answer::Released(body) => {
                beside_tag(out, b"{\"released\":", self.tag.as_ref(), |out| lease(out, body))
            }
            Answer::Renewed(body) => {
                beside_tag(out, b"{\"renewed\":", self.tag.as_ref(), |out| renewed(out, body))
            }
            _ => serde_json::to_writer(&mut *out, self).expect("invariant: answers can be written"),
        }
        out.push(b'\n');
    }
}

fn beside_tag(out: &mut Vec<u8>, begin: &[u8], tag: Option<&Tag>, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(begin);
    body(out);
    match tag {
        None => {}
        Some(Tag::Text(tag)) => {
            out.extend_from_slice(b",\"tag\":");
            text(out, tag);
        }
        Some(Tag::Number(tag)) => {
            out.extend_from_slice(b",\"tag\":");
            match tag.as_u64() {
                Some(tag) => number(out, tag),
                None => serde_json::to_writer(&mut *out, tag).expect("invariant: numbers can be written"),
            }
        }
    }
    out.push(b'}');
}

fn lease(out: &mut Vec<u8>, lease: &Lease) {
    // Taken apart, so that a field that is added is not forgotten here.
    let Lease {
        lease_id,
        holder,
        state,
        liveness,
        drain_cause,
        mode,
        epoch,
        fence,
        resources,
        ttl_ms,
        grace_ms,
        valid_ms,
        remaining_ms,
        granted_at,
        last_seen,
        unheard_since,
        deadline,
        ended_at,
        reason,
        reason_text,
        session,
        application,
        attachment,
        waiters,
        replayed,
        server_time,
        lsn,
    } = lease;
    out.extend_from_slice(b"{\"lease_id\":");
    text(out, lease_id);
    out.extend_from_slice(b",\"holder\":");
    text(out, holder);
    out.extend_from_slice(state_after_key(*state));
    out.extend_from_slice(match liveness {
        None => b",\"liveness\":null",
        Some(Liveness::Alive) => b",\"liveness\":\"alive\"",
        Some(Liveness::Draining) => b",\"liveness\":\"draining\"",
    });
    out.extend_from_slice(match drain_cause {
        None => b",\"drain_cause\":null",
        Some(DrainCause::Silence) => b",\"drain_cause\":\"silence\"",
        Some(DrainCause::Operator) => b",\"drain_cause\":\"operator\"",
    });
    out.extend_from_slice(match mode {
        Mode::Session => b",\"mode\":\"session\",\"epoch\":",
        Mode::Heartbeat => b",\"mode\":\"heartbeat\",\"epoch\":",
        Mode::Permanent => b",\"mode\":\"permanent\",\"epoch\":",
    });
    number(out, *epoch);
    out.extend_from_slice(b",\"fence\":");
    number(out, *fence);
    out.extend_from_slice(b",\"resources\":");
    texts(out, resources);
    out.extend_from_slice(b",\"ttl_ms\":");
    maybe(out, ttl_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(b",\"grace_ms\":");
    maybe(out, grace_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(b",\"valid_ms\":");
    maybe(out, valid_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(b",\"remaining_ms\":");
    maybe(out, remaining_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(b",\"granted_at\":");
    text(out, granted_at);
    out.extend_from_slice(b",\"last_seen\":");
    maybe(out, last_seen.as_ref(), |out, at| text(out, at));
    if let Some(at) = unheard_since {
        out.extend_from_slice(b",\"unheard_since\":");
        text(out, at);
    }
    out.extend_from_slice(b",\"deadline\":");
    maybe(out, deadline.as_ref(), |out, at| text(out, at));
    out.extend_from_slice(b",\"ended_at\":");
    maybe(out, ended_at.as_ref(), |out, at| text(out, at));
    out.extend_from_slice(b",\"reason\":");
    maybe(out, reason.as_ref(), |out, reason| text(out, reason));
    out.extend_from_slice(b",\"reason_text\":");
    maybe(out, reason_text.as_ref(), |out, words| text(out, words));
    out.extend_from_slice(b",\"session\":");
    maybe(out, session.as_ref(), |out, session| text(out, session));
    out.extend_from_slice(match application {
        Application::Leases => b",\"application\":\"leases\",\"face\":\"leases\",\"attachment\":",
        Application::Registrations => {
            b",\"application\":\"registrations\",\"face\":\"registrations\",\"attachment\":"
        }
        Application::Slots => b",\"application\":\"slots\",\"face\":\"streams\",\"attachment\":",
        Application::Polling => b",\"application\":\"polling\",\"face\":\"polling\",\"attachment\":",
    });
    maybe(out, attachment.as_ref(), |out, value| {
        serde_json::to_writer(&mut *out, value).expect("invariant: a JSON value can be written");
    });
    if let Some(waiters) = waiters {
        out.extend_from_slice(b",\"waiters\":");
        texts(out, waiters);
    }
    if *replayed {
        out.extend_from_slice(b",\"replayed\":true");
    }
    out.extend_from_slice(b",\"server_time\":");
    text(out, server_time);
    out.extend_from_slice(b",\"lsn\":");
    number(out, *lsn);
    out.push(b'}');
}

fn renewed(out: &mut Vec<u8>, renewed: &Renewed) {
    let Renewed { lease_id, epoch, valid_ms, remaining_ms, draining, server_time, lsn } = renewed;
    out.extend_from_slice(b"{\"lease_id\":");
    text(out, lease_id);
    out.extend_from_slice(b",\"epoch\":");
    number(out, *epoch);
    out.extend_from_slice(b",\"valid_ms\":");
    maybe(out, valid_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(b",\"remaining_ms\":");
    maybe(out, remaining_ms.as_ref(), |out, ms| number(out, *ms));
    out.extend_from_slice(match draining {
        false => b",\"draining\":false,\"server_time\":",
        true => b",\"draining\":true,\"server_time\":",
    });
    text(out, server_time);
    out.extend_from_slice(b",\"lsn\":");
    number(out, *lsn);
    out.push(b'}');
}

fn state_after_key(state: State) -> &'static [u8] {
    match state {
        State::Reserved => b",\"state\":\"reserved\"",
        State::Active => b",\"state\":\"active\"",
        State::Revoking => b",\"state\":\"revoking\"",
        State::Released => b",\"state\":\"released\"",
        State::Expired => b",\"state\":\"expired\"",
        State::Revoked => b",\"state\":\"revoked\"",
    }
}

fn maybe<T>(out: &mut Vec<u8>, value: Option<&T>, write: impl FnOnce(&mut Vec<u8>, &T)) {
    match value {
        Some(value) => write(out, value),
        None => out.extend_from_slice(b"null"),
    }
}

fn texts(out: &mut Vec<u8>, texts: &[String]) {
    out.push(b'[');
    for (place, each) in texts.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        text(out, each);
    }
    out.push(b']');
}

fn text(out: &mut Vec<u8>, text: &str) {
    // All of them at once, without a way out: that is what the compiler does many bytes at a time.
    let needs_escape =
        text.bytes().fold(false, |seen, byte| seen | (byte < b' ') | (byte == b'"') | (byte == b'\\'));
    if needs_escape {
        serde_json::to_writer(&mut *out, text).expect("invariant: a text can be written");
        return;
    }
    out.reserve(text.len().saturating_add(2));
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option::of;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z0-9/:.-]{0,20}", "\\PC{0,8}", "[\\x00-\\x1f\"\\\\é]{0,6}"]
    }

    fn tag() -> impl Strategy<Value = Option<Tag>> {
        of(prop_oneof![
            any::<u64>().prop_map(Tag::number),
            any::<i64>().prop_map(|tag| Tag::Number(tag.into())),
            word().prop_map(Tag::Text),
        ])
    }

    fn of_these<T: Clone + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
        proptest::sample::select(all)
    }

    prop_compose! {
        fn any_lease()(
            (lease_id, holder, resources) in (word(), word(), prop::collection::vec(word(), 0..4)),
            (state, liveness, drain_cause) in (
                of_these(&[State::Reserved, State::Active, State::Revoking, State::Released, State::Expired, State::Revoked]),
                of(of_these(&[Liveness::Alive, Liveness::Draining])),
                of(of_these(&[DrainCause::Silence, DrainCause::Operator])),
            ),
            (mode, application) in (
                of_these(&[Mode::Session, Mode::Heartbeat, Mode::Permanent]),
                of_these(&[Application::Leases, Application::Registrations, Application::Slots, Application::Polling]),
            ),
            (epoch, fence, lsn) in any::<(u64, u64, u64)>(),
            (ttl_ms, grace_ms, valid_ms, remaining_ms) in any::<(Option<u64>, Option<u64>, Option<u64>, Option<u64>)>(),
            (granted_at, server_time, last_seen, unheard_since, deadline, ended_at) in
                (word(), word(), of(word()), of(word()), of(word()), of(word())),
            (reason, reason_text, session) in (of(word()), of(word()), of(word())),
            attachment in of(word().prop_map(|word| serde_json::json!({ "a": [word, 1.5, null] }))),
            waiters in of(prop::collection::vec(word(), 0..3)),
            replayed in any::<bool>(),
        ) -> Lease {
            Lease {
                lease_id, holder, state, liveness, drain_cause, mode, epoch, fence, resources, ttl_ms, grace_ms,
                valid_ms, remaining_ms, granted_at, last_seen, unheard_since, deadline, ended_at, reason, reason_text,
                session, application, attachment, waiters, replayed, server_time, lsn,
            }
        }
    }

    fn assert_as_serde_writes(answer: Answer, tag: Option<Tag>) {
        let line = AnswerLine { answer, tag };
        let mut out = b"before".to_vec();
        line.write(&mut out);
        let expected = format!("before{}\n", serde_json::to_string(&line).expect("a line"));
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    proptest! {
        #[test]
        fn leases_are_written_as_serde_writes_them(lease in any_lease(), tag in tag(), is_release: bool) {
            let answer = if is_release { Answer::Released } else { Answer::Acquired };
            assert_as_serde_writes(answer(Box::new(lease)), tag);
        }

        #[test]
        fn renewals_are_written_as_serde_writes_them(
            (lease_id, server_time) in (word(), word()),
            (epoch, lsn, draining) in any::<(u64, u64, bool)>(),
            (valid_ms, remaining_ms) in any::<(Option<u64>, Option<u64>)>(),
            tag in tag(),
        ) {
            let renewed = Renewed { lease_id, epoch, valid_ms, remaining_ms, draining, server_time, lsn };
            assert_as_serde_writes(Answer::Renewed(renewed), tag);
        }
    }

    #[test]
    fn everything_else_is_written_by_serde() {
        assert_as_serde_writes(Answer::Stopped(Tag::number(4)), Some(Tag::Text("x".to_owned())));
    }
}
