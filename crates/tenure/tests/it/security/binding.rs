//! Addresses that other machines can reach. The daemon runs in a network of its own, in which there are none.
//! Needs root, for that network.

use crate::daemon::Daemon;
use crate::fixture::Answer;

use super::write_tokens;

/// Starts its last words where only loopback exists.
const ALONE: &[&str] = &["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// Everything, seen from a program beside the daemon.
fn beside(daemon: &Daemon, words: &[&str]) -> Answer {
    let target = daemon.pid().to_string();
    let mut command = std::process::Command::new("nsenter");
    let binary = env!("CARGO_BIN_EXE_tenure");
    command
        .args(["--target", &target, "--net", binary])
        .args(words)
        .env("NO_COLOR", "1")
        .env("TENURE_MDNS_ENABLED", "false");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    daemon.desk.answer(&mut command)
}

#[test]
fn an_open_address_without_credentials_is_refused() {
    for address in ["0.0.0.0", "::"] {
        let mut daemon = Daemon::prepared(&["--bind", address]).with_launcher(ALONE);
        daemon.spawn();
        assert_eq!(daemon.code(), 2, "{}", daemon.said());
        let said = daemon.said();
        assert!(
            said.contains(address) && said.contains("--insecure-no-auth") && said.contains("token"),
            "{said}"
        );
        assert!(!daemon.data_dir().exists() && !daemon.socket().exists(), "nothing was touched");
    }
}

#[test]
fn an_open_address_with_tokens_asks_everybody_for_one() {
    let mut daemon =
        Daemon::prepared(&["--bind", "0.0.0.0", "--token-file", "DIR/tokens"]).with_launcher(ALONE);
    write_tokens(&daemon.path("tokens"), &[("ci", "read")]);
    daemon.start_again();
    let endpoint = format!("http://127.0.0.1:{}", daemon.address().port());
    let refused = beside(&daemon, &["--endpoint", &endpoint, "status"]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("token"), "{}", refused.err);
    let admitted = beside(&daemon, &["--endpoint", &endpoint, "--token", "secret-ci", "status"]);
    assert_eq!(admitted.code, 0, "{}", admitted.err);
}

#[test]
fn whoever_accepts_everybody_has_to_say_so() {
    let mut daemon = Daemon::prepared(&["--bind", "0.0.0.0", "--insecure-no-auth"]).with_launcher(ALONE);
    daemon.start_again();
    let endpoint = format!("http://127.0.0.1:{}", daemon.address().port());
    let admitted = beside(&daemon, &["--endpoint", &endpoint, "lease", "acquire", "r", "--holder", "h"]);
    assert_eq!(admitted.code, 0, "{}", admitted.err);
}
