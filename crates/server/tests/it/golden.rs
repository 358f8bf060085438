//! What nodes of the first version said to each other: still understood, whole.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure_api::{Error, SteppedDown};
use tenure_faces::{Call, Reply};
use tenure_server::{
    Back, EVENTS_PATH, NODE_HEADER, NodeSegment, NodeSegments, PASS_PATH, PassedBack, PassedOn, SEGMENTS_PATH,
};

fn golden(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(name)).unwrap()
}

/// Reads a body. Written again it says at least the same: nothing in it was passed over.
#[track_caller]
fn understood<T: DeserializeOwned + Serialize>(body: &str) -> T {
    let read: T = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let [said, again] =
        [body, &serde_json::to_string(&read).unwrap()].map(|text| serde_json::from_str(text).unwrap());
    assert!(says(&again, &said), "{again}\nis not\n{said}");
    read
}

/// Whether a value says all that another one says. Fields may be added.
fn says(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => {
            other.iter().all(|(key, other)| value.get(key).is_some_and(|value| says(value, other)))
        }
        (Value::Array(value), Value::Array(other)) => {
            value.len() == other.len() && value.iter().zip(other).all(|(value, other)| says(value, other))
        }
        _ => value == other,
    }
}

/// Requests and their answers.
fn passed() -> Vec<(String, String)> {
    let text = golden("passed.txt");
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).map(|pair| {
        let said = pair[0].strip_prefix("> ").unwrap();
        let answered = pair[1].strip_prefix("< ").unwrap();
        (said.to_owned(), answered.to_owned())
    });
    pairs.collect()
}

#[test]
fn where_nodes_ask_and_how_they_show_themselves() {
    assert_eq!(
        [PASS_PATH, SEGMENTS_PATH, EVENTS_PATH, NODE_HEADER],
        ["/v1/cluster/pass", "/v1/cluster/segments", "/v1/cluster/events", "tenure-node"]
    );
}

#[test]
fn every_call_and_every_answer_is_understood() {
    let mut told = String::new();
    for (said, answered) in passed() {
        let on: PassedOn = understood(&said);
        if on.memory {
            assert!(understood::<Value>(&answered)["log_id"].is_u64(), "{answered}");
        } else if on.step_down {
            assert!(understood::<SteppedDown>(&answered).stepped_down);
        } else {
            let back: PassedBack = understood(&answered);
            assert_eq!(on.calls.len(), back.replies.len());
            for (call, back) in on.calls.iter().zip(back.replies) {
                let came_to = match Result::<Reply, Error>::from(back) {
                    Ok(reply) => name(&reply),
                    Err(error) => error.code.as_str().to_owned(),
                };
                let origin = if on.connection.is_some() { " on a connection" } else { "" };
                writeln!(told, "{} -> {came_to}{origin}", name(call)).unwrap();
            }
        }
    }
    assert_eq!(told.lines().count(), 58, "{told}");
    for line in [
        "Acquire -> Lease",
        "Acquire -> resource_held",
        "Acquire -> Lease on a connection",
        "Heartbeat -> stale_epoch",
        "NodeTold -> NodeHeard",
        "ConnectionsTold -> ConnectionsHeard",
        "RegisterAt -> Registered on a connection",
    ] {
        assert!(told.lines().any(|told| told == line), "{line} is not in\n{told}");
    }
}

/// The name of a variant as it is written.
fn name(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant).unwrap() {
        Value::String(name) => name,
        Value::Object(object) => object.keys().next().unwrap().clone(),
        other => panic!("{other}"),
    }
}

/// What an older node does not say is as if it had said no.
#[test]
fn what_may_be_left_out_may_be_left_out() {
    let on: PassedOn =
        serde_json::from_str(r#"{"principal":"local","scope":"read","calls":["Pools"]}"#).unwrap();
    assert!(on.connection.is_none() && !on.step_down && !on.memory);
    assert!(matches!(on.calls.as_slice(), [Call::Pools]));
    let refused =
        serde_json::to_string(&Back::Error(Error::new(tenure_api::ErrorCode::NotLeader, "no node writes")));
    assert!(refused.unwrap().starts_with(r#"{"error":{"error":"not_leader","message":"no node writes""#));
}

#[test]
fn the_list_of_segments_is_understood() {
    let list: NodeSegments = understood(&golden("segments.json"));
    assert_eq!(list.segments[0], NodeSegment { first_lsn: 1, last_lsn: 394, bytes: 65_536 });
}
