//! The command line against a daemon: its answers as objects, and as text without what differs between runs.

use std::process::Command;

use serde_json::Value;

pub(crate) use crate::daemon::Daemon;

impl Daemon {
    /// The binary, seeing this daemon and no other.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.desk.command(arguments)
    }

    /// Runs it and takes out what differs between runs.
    pub(crate) fn plain(&self, arguments: &[&str]) -> String {
        scrubbed(&self.tenure(arguments).all(), &self.tag())
    }

    /// The answer of a command that succeeds, as an object.
    #[track_caller]
    pub(crate) fn object(&self, arguments: &[&str]) -> Value {
        let answer = self.tenure(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, 0, "{arguments:?}: {}{}", answer.out, answer.err);
        serde_json::from_str(&answer.out).unwrap()
    }

    /// Takes resources by hand and gives the lease's id.
    #[track_caller]
    pub(crate) fn take(&self, arguments: &[&str]) -> String {
        let lease = self.object(&[&["lease", "acquire"], arguments].concat());
        lease["lease_id"].as_str().unwrap().to_owned()
    }

    /// The first four characters of its leases' ids.
    pub(crate) fn tag(&self) -> String {
        self.object(&["status"])["log_tag"].as_str().unwrap().to_owned()
    }
}

/// The text with times, spans, fences, ports, the user and the tag of the log replaced, and gaps of tables made one.
pub(crate) fn scrubbed(text: &str, tag: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut shown: Vec<String> = Vec::new();
        let mut place = 0;
        while place < words.len() {
            let unit = words.get(place + 1).map(|unit| unit.trim_end_matches([',', ';', ':', ')']));
            if is_number(words[place]) && matches!(unit, Some("s" | "ms")) {
                let unit = words[place + 1];
                shown.push(format!("SPAN{}", unit.trim_start_matches(['m', 's'])));
                place += 2;
                continue;
            }
            shown.push(word(words[place], tag));
            place += 1;
        }
        out.push_str(&" ".repeat(indent));
        // How long ago depends on the machine.
        out.push_str(&shown.join(" ").replace("SPAN ago", "now"));
        out.push('\n');
    }
    out
}

fn word(word: &str, tag: &str) -> String {
    let core = word.trim_matches(['(', ')', ',', ';', ':']);
    let replaced = if core.len() == 24 && core.ends_with('Z') && core.as_bytes()[10] == b'T' {
        "TIME".to_owned()
    } else if core.len() >= 13 && core.bytes().all(|byte| byte.is_ascii_digit()) {
        "FENCE".to_owned()
    } else if core.ends_with("/daemon.json") {
        "BREADCRUMB".to_owned()
    } else if core.strip_prefix("uid:").is_some_and(is_number) {
        "uid:ME".to_owned()
    } else if let Some(port) = core.strip_prefix("http://127.0.0.1:") {
        format!("http://127.0.0.1:PORT{}", port.trim_start_matches(|c: char| c.is_ascii_digit()))
    } else {
        core.replace(&format!("{tag}-"), "TAG-")
    };
    word.replace(core, &replaced)
}

fn is_number(word: &str) -> bool {
    let core = word.trim_start_matches('(');
    !core.is_empty() && core.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}
