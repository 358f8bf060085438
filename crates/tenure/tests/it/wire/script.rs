//! Scenarios as text: one step per line, the same for every transport.
//!
//! ```text
//! a: acquire {"resources":["r"],"holder":"alice"}    a call; its lease is called a from now on
//! heartbeat a {"epoch":1}                            a call about lease a
//! check {"lease_id":"$a","epoch":$a.epoch}           what an earlier answer said
//! & b: acquire {…,"wait_ms":30000}                   begins to wait
//! until a {"waiters":["bob"]}                        looks at lease a until it is so
//! await b                                            the answer that b waited for
//! ```

use std::collections::HashMap;

use serde_json::Value;

/// One step of a scenario.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Call { label: Option<&'a str>, verb: &'a str, lease: Option<&'a str>, body: &'a str },
    Begin { label: &'a str, body: &'a str },
    Await { label: &'a str },
    Until { lease: &'a str, wanted: &'a str },
}

/// Answers by the name that the script gives them.
pub(crate) type Known = HashMap<String, Value>;

pub(crate) fn steps(script: &str) -> impl Iterator<Item = (&str, Step<'_>)> {
    script.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| (line, step(line)))
}

fn step(line: &str) -> Step<'_> {
    let (words, body) = match line.find('{') {
        Some(at) => (line[..at].trim(), line[at..].trim()),
        None => (line, "{}"),
    };
    let mut words: Vec<&str> = words.split(' ').collect();
    let begins = words[0] == "&";
    if begins {
        words.remove(0);
    }
    let label = words[0].strip_suffix(':');
    if label.is_some() {
        words.remove(0);
    }
    match (&words[..], label) {
        (["acquire"], Some(label)) if begins => Step::Begin { label, body },
        (["await", label], None) => Step::Await { label },
        (["until", lease], None) => Step::Until { lease, wanted: body },
        ([verb], label) => Step::Call { label, verb, lease: None, body },
        ([verb, lease], label) => Step::Call { label, verb, lease: Some(lease), body },
        _ => panic!("{line:?} is no step"),
    }
}

/// The body with `$a` and `$a.field` filled in.
pub(crate) fn filled(text: &str, known: &Known) -> Value {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(rest.len());
        let (label, field) = rest[..end].split_once('.').unwrap_or((&rest[..end], "lease_id"));
        let value = &known.get(label).unwrap_or_else(|| panic!("nothing is called {label:?}"))[field];
        match value {
            Value::String(text) => out.push_str(text),
            value => out.push_str(&value.to_string()),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{out}: {error}"))
}
