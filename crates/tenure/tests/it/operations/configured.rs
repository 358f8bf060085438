//! Settings as an operator meets them: where each came from, and what is wrong with the one that is wrong.

use std::fs;

use crate::daemon::Daemon;
use crate::faults::random::Random;

#[test]
fn the_configuration_is_shown_with_where_each_value_came_from() {
    let daemon = Daemon::prepared(&[]);
    fs::write(daemon.path("tenure.toml"), "[limits]\nleases = 77\nwaiters = 5\n[breaker]\nhold = \"9s\"\n")
        .unwrap();
    let mut command = daemon.desk.command(&[
        "serve",
        "--print-config",
        "--config",
        "DIR/tenure.toml",
        "--data-dir",
        "DIR/data",
        "--limits-leases",
        "88",
    ]);
    command.env("TENURE_LIMITS_WAITERS", "6");
    let answer = daemon.desk.answer(&mut command);
    assert_eq!(answer.code, 0, "{}", answer.all());
    let line = |key: &str| {
        let found = answer.out.lines().find(|line| line.trim_start().starts_with(key));
        found.unwrap_or_else(|| panic!("{key} is not in {}", answer.out)).to_owned()
    };
    for (key, value, origin) in [
        ("leases ", "88", "--limits-leases"),
        ("waiters ", "6", "TENURE_LIMITS_WAITERS"),
        ("hold ", "9s", "tenure.toml"),
        ("pools ", "10000", "default"),
    ] {
        let line = line(key);
        assert!(line.contains(value) && line.contains(origin), "{line}");
    }
    assert!(!daemon.data_dir().exists(), "nothing was started");
}

#[test]
fn settings_of_the_file_and_of_the_environment_count() {
    let mut daemon =
        Daemon::prepared(&["--config", "DIR/tenure.toml"]).with_variable("TENURE_LIMITS_POOLS", "1");
    fs::write(daemon.path("tenure.toml"), "[limits]\nleases = 1\npools = 9\n").unwrap();
    daemon.start_again();
    let grant = |name: &str| {
        daemon.post("/v1/leases", &serde_json::json!({"resources": [name], "holder": "h"})).status
    };
    assert_eq!((grant("a"), grant("b")), (201, 503));
    let define =
        |name: &str| daemon.http().put(&format!("/v1/pools/{name}"), &serde_json::json!({"size": 1})).status;
    assert_eq!((define("a"), define("b")), (200, 503));
}

#[test]
fn an_unknown_key_names_the_nearest_known_one_and_nothing_is_started() {
    let mut daemon = Daemon::prepared(&["--config", "DIR/tenure.toml"]);
    fs::write(daemon.path("tenure.toml"), "[limits]\nlease = 1\n").unwrap();
    daemon.spawn();
    assert_eq!(daemon.code(), 2, "{}", daemon.said());
    let said = daemon.said();
    assert!(said.contains("lease") && said.contains("leases"), "{said}");
    assert!(!daemon.data_dir().exists());
}

#[test]
fn log_lines_have_the_form_and_the_level_that_was_asked_for() {
    let mut daemon = Daemon::start_with(&["--log-format", "text"]);
    daemon.stop();
    assert!(
        !daemon.said().contains("{\"timestamp\"") && daemon.said().contains("stopping on request"),
        "{}",
        daemon.said()
    );
    let mut daemon = Daemon::start_with(&["--log-level", "error"]);
    daemon.stop();
    assert!(!daemon.said().contains("stopping on request"), "{}", daemon.said());
}

/// Pieces that matter to the reading of TOML.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "\\",
    "\n",
    "\r",
    "\0",
    "#",
    ".",
    ",",
    "{",
    "}",
    "-1",
    "1e999",
    "0x",
    "99999999999999999999",
    "9223372036854775807",
    "1979-05-27T07:32:00Z",
    "nan",
    "inf",
    "true",
    "\u{feff}",
    "\u{202e}",
    "\\uD800",
    "[limits.leases]",
    "[limits]",
    "limits.leases = 1",
    "18446744073709551615GiB",
    "0.0000001s",
    "-0s",
    "1h1h",
    "9999999999d",
];

#[test]
fn a_damaged_file_is_refused_in_one_line_and_never_a_crash() {
    let daemon = Daemon::prepared(&[]);
    let good = "[server]\nport = 7000\nallow_origin = [\"https://a.example\"]\n[limits]\nleases = 77\nbody_bytes = \"2MiB\"\n\
                [breaker]\nhold = \"9s\"\nfraction = 0.75\n[log]\nlevel = \"info\"\n";
    let mut random = Random::new(11);
    for round in 0..150 {
        let mut bytes = good.as_bytes().to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            let end = (at + random.below(6) as usize).min(bytes.len());
            let piece = match random.below(8) {
                0 => random.bytes(3),
                _ => PIECES[random.below(PIECES.len() as u64) as usize].as_bytes().to_vec(),
            };
            bytes.splice(at..end, piece);
        }
        fs::write(daemon.path("tenure.toml"), &bytes).unwrap();
        let answer = daemon.tenure(&["serve", "--print-config", "--config", "DIR/tenure.toml"]);
        let shown = String::from_utf8_lossy(&bytes);
        assert!(matches!(answer.code, 0 | 2 | 3), "round {round}: {shown:?} gave {}", answer.all());
        assert!(
            answer.code == 0 || answer.err.starts_with("error: "),
            "round {round}: {shown:?} gave {}",
            answer.all()
        );
        assert!(answer.err.lines().count() <= 2, "round {round}: {shown:?} gave {}", answer.all());
    }
}
