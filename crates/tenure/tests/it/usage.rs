//! Help, wrong usage, wrong directories.

use expect_test::{Expect, expect};
use tempfile::TempDir;

use crate::fixture::tenure;

fn check(arguments: &[&str], expected: Expect) {
    expected.assert_eq(&tenure(None, arguments).all());
}

#[test]
fn help_names_the_commands_and_the_exit_codes_and_ends_with_examples() {
    let answer = tenure(None, &["-h"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert!(answer.out.starts_with("Durable leases and locks"), "{}", answer.out);
    for command in ["serve", "status", "watch", "why", "lease", "run", "pool", "log", "backup", "stdio"] {
        assert!(answer.out.contains(&format!("\n  {command} ")), "{command}: {}", answer.out);
    }
    let codes = "\nExit codes: 0 done, 1 rejected, 2 wrong usage, 3 unreachable or unexpected.\n";
    let (_, end) = answer.out.split_once(codes).unwrap_or_else(|| panic!("{}", answer.out));
    let examples = end.strip_prefix("\nExamples:\n").unwrap_or_else(|| panic!("{end}"));
    assert!(examples.lines().all(|line| line.starts_with("  tenure ")), "{end}");
    let shows = |what: &str| examples.contains(&format!("  tenure {what}"));
    assert!(["serve", "run --resource ", "lease acquire ", "why "].into_iter().all(shows), "{end}");
    assert_eq!(tenure(None, &["--help"]).out.split_once(codes).map(|(_, end)| end), Some(end));
}

#[test]
fn the_version_is_told() {
    assert_eq!(tenure(None, &["--version"]).out, concat!("tenure ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn every_command_has_help() {
    check(
        &["log", "--help"],
        expect![[r#"
            exit 0
            --- out
            Inspect the log in a data directory, without a daemon

            Reads only and locks nothing, so it works on the directory of a running daemon too.

            Usage: tenure log [OPTIONS] <COMMAND>

            Commands:
              verify  Verify every checksum, record, snapshot and invariant of a log
              dump    Print the records of a log as NDJSON, oldest first
              at      Show the leases, pools and sessions at an LSN or a time
              why     Explain what happened to a lease, registration, resource or session, from a log or an
                      archive
              help    Print this message or the help of the given subcommand(s)

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Print only errors on standard error

              -v, --verbose
                      Print more on standard error, such as the daemon that is used

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      Use this daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; for a cluster several
                      URLs, comma-separated [default: the daemon on this machine]

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      Send this token

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      Read the token from this file, to keep it off the command line

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      Trust the CAs in this file (PEM) for https [default: the system's CAs]

                      [env: TENURE_CA]

                  --cert <FILE>
                      Present this client certificate (PEM)

                      [env: TENURE_CERT]

                  --key <FILE>
                      Use this private key (PEM) for the client certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands use mDNS themselves while they run

            Examples:
              tenure log verify /var/lib/tenure
              tenure log why /var/lib/tenure printer
            --- err
        "#]],
    );
    check(
        &["log", "verify", "--help"],
        expect![[r#"
            exit 0
            --- out
            Verify every checksum, record, snapshot and invariant of a log

            Reads the whole log, replays it from the start and from its oldest snapshot, and compares every
            snapshot with the replayed state. Exits with 0 if the log is sound, with 1 if it is damaged (the
            first damaged file and offset are named), and with 3 if it cannot be read.

            Usage: tenure log verify [OPTIONS] <DIR>

            Arguments:
              <DIR>
                      Data directory (with log/ and snapshots/), or the directory of log.archive

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Print only errors on standard error

              -v, --verbose
                      Print more on standard error, such as the daemon that is used

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      Use this daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; for a cluster several
                      URLs, comma-separated [default: the daemon on this machine]

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      Send this token

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      Read the token from this file, to keep it off the command line

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      Trust the CAs in this file (PEM) for https [default: the system's CAs]

                      [env: TENURE_CA]

                  --cert <FILE>
                      Present this client certificate (PEM)

                      [env: TENURE_CERT]

                  --key <FILE>
                      Use this private key (PEM) for the client certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands use mDNS themselves while they run

            Example:
              tenure log verify /var/lib/tenure
            --- err
        "#]],
    );
    check(
        &["log", "dump", "--help"],
        expect![[r#"
            exit 0
            --- out
            Print the records of a log as NDJSON, oldest first

            Prints one record per line. A record with a correct checksum that this version cannot decode is
            printed with its bytes and the reason. If the log is damaged, the records before the damage are
            printed and the exit code is 3.

            Usage: tenure log dump [OPTIONS] <DIR>

            Arguments:
              <DIR>
                      Data directory (with log/ and snapshots/), or the directory of log.archive

            Options:
                  --from <LSN>
                      Begin with this LSN

                      [default: 1]

                  --to <LSN>
                      End with this LSN

                  --kind <KIND>
                      Print only records of this kind (repeatable)

                      Possible values:
                      - event:  A change of state
                      - note:   An observation without effect on the state
                      - config: Settings that the rules use
                      - tick:   Passage of time within a frame
                      - close:  A clean stop of the daemon

                  --json
                      Print data as JSON

              -q, --quiet
                      Print only errors on standard error

              -v, --verbose
                      Print more on standard error, such as the daemon that is used

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      Use this daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; for a cluster several
                      URLs, comma-separated [default: the daemon on this machine]

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      Send this token

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      Read the token from this file, to keep it off the command line

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      Trust the CAs in this file (PEM) for https [default: the system's CAs]

                      [env: TENURE_CA]

                  --cert <FILE>
                      Present this client certificate (PEM)

                      [env: TENURE_CERT]

                  --key <FILE>
                      Use this private key (PEM) for the client certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands use mDNS themselves while they run

            Examples:
              tenure log dump /var/lib/tenure
              tenure log dump /var/lib/tenure --from 1000 --kind event,note
            --- err
        "#]],
    );
    check(
        &["log", "at", "--help"],
        expect![[r#"
            exit 0
            --- out
            Show the leases, pools and sessions at an LSN or a time

            Rebuilds the state from the newest snapshot before that point, or from the start of the log. A time
            selects the state after the last frame written up to it.

            Usage: tenure log at [OPTIONS] <LSN|TIME> <DIR>

            Arguments:
              <LSN|TIME>
                      LSN, time like 2026-02-07T22:15:00Z, or Unix milliseconds

                      A number from 100000000000 on is a time in Unix milliseconds, a smaller one is an LSN.

              <DIR>
                      Data directory (with log/ and snapshots/), or the directory of log.archive

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Print only errors on standard error

              -v, --verbose
                      Print more on standard error, such as the daemon that is used

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      Use this daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; for a cluster several
                      URLs, comma-separated [default: the daemon on this machine]

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      Send this token

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      Read the token from this file, to keep it off the command line

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      Trust the CAs in this file (PEM) for https [default: the system's CAs]

                      [env: TENURE_CA]

                  --cert <FILE>
                      Present this client certificate (PEM)

                      [env: TENURE_CERT]

                  --key <FILE>
                      Use this private key (PEM) for the client certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands use mDNS themselves while they run

            Examples:
              tenure log at 1000 /var/lib/tenure
              tenure log at 2026-02-07T22:15:00Z /var/lib/tenure
            --- err
        "#]],
    );
}

#[test]
fn wrong_usage_is_one_line_and_a_hint() {
    check(
        &["frobnicate"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: unrecognized subcommand 'frobnicate'
            hint: tenure --help lists the commands
        "#]],
    );
    check(
        &["log"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: tenure log needs a command
            hint: tenure log --help
        "#]],
    );
    check(
        &["log", "verfy", "x"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: unrecognized subcommand 'verfy'
            hint: did you mean tenure log verify? tenure log --help lists the commands
        "#]],
    );
    check(
        &["log", "verify"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: the following required arguments were not provided: <DIR>
            hint: tenure log verify --help
        "#]],
    );
    check(
        &["log", "dump", "x", "--kind", "nothing"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: invalid value 'nothing' for '--kind <KIND>' [possible values: event, note, config, tick, close]
        hint: a similar value exists: 'note'
    "#]],
    );
    check(
        &["log", "dump", "x", "--from", "9", "--to", "3"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: --from 9 is greater than --to 3
            hint: both ends are included: --from 5 --to 7 is three records
        "#]],
    );
    check(
        &["log", "at", "yesterday", "x"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value 'yesterday' for '<LSN|TIME>': a time is written like 2026-02-07T22:15:00Z or 2026-02-07T23:15:00.250+01:00, not before 1970
            hint: tenure log at --help
        "#]],
    );
    check(
        &["log", "at", "99999999999999999999999", "x"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '99999999999999999999999' for '<LSN|TIME>': expected an LSN or Unix milliseconds, 0 to 18446744073709551615
            hint: tenure log at --help
        "#]],
    );
}

#[test]
fn a_wrong_directory_is_one_line_and_a_hint() {
    let directory = TempDir::new().unwrap();
    std::fs::create_dir(directory.path().join("empty")).unwrap();
    std::fs::create_dir_all(directory.path().join("bare/log")).unwrap();
    std::fs::write(directory.path().join("file"), "x").unwrap();
    let mut out = String::new();
    for command in [&["log", "verify"][..], &["log", "dump"], &["log", "at", "1"]] {
        for name in ["missing", "empty", "bare", "file"] {
            let argument = format!("DIR/{name}");
            let answer = tenure(Some(directory.path()), &[command, &[&argument]].concat());
            assert_eq!((answer.code, answer.out.as_str()), (3, ""), "{command:?} {name}");
            out.push_str(&format!("{} {name}: {}", command[1], answer.err));
        }
    }
    expect![[r#"
        verify missing: error: there is no directory DIR/missing
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        verify empty: error: there is no log in DIR/empty
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        verify bare: error: there is no log in DIR/bare
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        verify file: error: this is not a directory: DIR/file
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        dump missing: error: there is no directory DIR/missing
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        dump empty: error: there is no log in DIR/empty
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        dump bare: error: there is no log in DIR/bare
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        dump file: error: this is not a directory: DIR/file
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        at missing: error: there is no directory DIR/missing
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        at empty: error: there is no log in DIR/empty
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        at bare: error: there is no log in DIR/bare
        hint: name the data directory of a daemon: the one with log/ and snapshots/
        at file: error: this is not a directory: DIR/file
        hint: name the data directory of a daemon: the one with log/ and snapshots/
    "#]]
    .assert_eq(&out);
}
