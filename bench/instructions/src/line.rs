//! Lines on the socket: bytes to a typed verb, and an answer to bytes.

use crate::{HotPath, ROUNDS, Round, resource};
use anyhow::ensure;
use std::hint::black_box;
use tenure_api::{AnswerLine, Line};

const LINES: usize = 1_000;

pub(crate) const PARSE_ACQUIRE: HotPath = HotPath {
    name: "line: parse acquire",
    operations: LINES,
    prepare: || {
        parse(|number| {
            let name = resource(number);
            format!(
                r#"{{"acquire":{{"resources":["{name}"],"holder":"worker-17","ttl_ms":30000}},"tag":{number}}}"#
            )
        })
    },
};

pub(crate) const PARSE_HEARTBEAT: HotPath = HotPath {
    name: "line: parse heartbeat",
    operations: LINES,
    prepare: || {
        parse(|number| {
            let lease = lease(number);
            format!(r#"{{"heartbeat":{{"lease_id":"{lease}","epoch":1}},"tag":{number}}}"#)
        })
    },
};

pub(crate) const WRITE_ACQUIRED: HotPath = HotPath {
    name: "line: write acquired",
    operations: LINES,
    prepare: || {
        write(|number| {
            let (lease, name) = (lease(number), resource(number));
            format!(
                r#"{{"acquired":{{"lease_id":"{lease}","holder":"worker-17","state":"active","liveness":"alive","drain_cause":null,"mode":"heartbeat","epoch":1,"fence":{number},"resources":["{name}"],"ttl_ms":30000,"grace_ms":30000,"valid_ms":30000,"remaining_ms":30000,"granted_at":"2026-01-01T00:00:00.000Z","last_seen":"2026-01-01T00:00:00.000Z","deadline":"2026-01-01T00:00:30.000Z","ended_at":null,"reason":null,"reason_text":null,"session":null,"face":"leases","attachment":null,"server_time":"2026-01-01T00:00:00.000Z","lsn":{number}}},"tag":{number}}}"#
            )
        })
    },
};

pub(crate) const WRITE_RENEWED: HotPath = HotPath {
    name: "line: write renewed",
    operations: LINES,
    prepare: || {
        write(|number| {
            let lease = lease(number);
            format!(
                r#"{{"renewed":{{"lease_id":"{lease}","epoch":1,"valid_ms":30000,"remaining_ms":30000,"draining":false,"server_time":"2026-01-01T00:00:00.000Z","lsn":{number}}},"tag":{number}}}"#
            )
        })
    },
};

fn lease(number: usize) -> String {
    format!("k3f9-{number}")
}

/// From bytes to the verb, which is then let go of.
fn parse(line: impl Fn(usize) -> String) -> anyhow::Result<Round> {
    let lines: Vec<String> = (0..LINES).map(line).collect();
    ensure!(lines.iter().all(|line| Line::parse(line.as_bytes()).is_ok()), "a line is not understood");
    Ok(Box::new(move || {
        for line in &lines {
            drop(black_box(Line::parse(black_box(line.as_bytes()))));
        }
    }))
}

/// As a connection writes what one read brought: all into one buffer.
fn write(line: impl Fn(usize) -> String) -> anyhow::Result<Round> {
    let answers = (0..LINES).map(|number| Ok(serde_json::from_str(&line(number))?));
    let answers: Vec<AnswerLine> = answers.collect::<anyhow::Result<_>>()?;
    let mut buffers: Vec<Vec<u8>> = (0..ROUNDS).map(|_| Vec::with_capacity(LINES * 1_024)).collect();
    Ok(Box::new(move || {
        let mut buffer = buffers.pop().expect("invariant: a buffer per round");
        for answer in &answers {
            black_box(answer).write(&mut buffer);
            buffer.push(b'\n');
        }
        black_box(&buffer);
        std::mem::forget(buffer);
    }))
}
