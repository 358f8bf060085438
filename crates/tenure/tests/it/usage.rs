//! Help, wrong usage, wrong directories.

use expect_test::{Expect, expect};
use tempfile::TempDir;

use crate::fixture::tenure;

fn check(arguments: &[&str], expected: Expect) {
    expected.assert_eq(&tenure(None, arguments).all());
}

#[test]
fn help_names_the_commands_and_the_exit_codes() {
    let answer = tenure(None, &["-h"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert!(answer.out.starts_with("Decides who holds what, until when"), "{}", answer.out);
    for command in ["serve", "status", "watch", "why", "lease", "run", "pool", "log", "backup", "stdio"] {
        assert!(answer.out.contains(&format!("\n  {command} ")), "{command}: {}", answer.out);
    }
    let end = "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or unexpected.\n";
    assert!(answer.out.ends_with(end), "{}", answer.out);
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
            Look into the log of a data directory, without a daemon

            Nothing is written and nothing is locked, so the directory of a running daemon may be read too.

            Usage: tenure log [OPTIONS] <COMMAND>

            Commands:
              verify  Check every checksum, record, snapshot and invariant of a log
              dump    Print the records of a log as NDJSON, oldest first
              at      Print who held what at an LSN or at a time
              why     Tell what happened to a lease, a registration, a resource or a session, from a log or an
                      archive
              help    Print this message or the help of the given subcommand(s)

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Say nothing on standard error unless something goes wrong

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      The daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; found by itself unless
                      told. Nodes of a cluster with commas between: the one that answers is asked

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      The token to present

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      A file with the token: command lines are seen by all

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      PEM file of the authority that signed the daemon's certificate [default: the system's]

                      [env: TENURE_CA]

                  --cert <FILE>
                      PEM file with the certificate to present, for daemons that ask for one

                      [env: TENURE_CERT]

                  --key <FILE>
                      PEM file with the key of that certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands then do it themselves, for as long as they run
            --- err
        "#]],
    );
    check(
        &["log", "verify", "--help"],
        expect![[r#"
            exit 0
            --- out
            Check every checksum, record, snapshot and invariant of a log

            Reads the whole log, replays it from the start and from its oldest snapshot, and compares every
            snapshot with what the records come to. Exits with 0 if the log is sound, with 1 if it is damaged,
            naming the first damaged file and offset, and with 3 if it cannot be read.

            Usage: tenure log verify [OPTIONS] <DIR>

            Arguments:
              <DIR>
                      The data directory (the one that holds log/ and snapshots/), or the directory of
                      log.archive

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Say nothing on standard error unless something goes wrong

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      The daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; found by itself unless
                      told. Nodes of a cluster with commas between: the one that answers is asked

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      The token to present

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      A file with the token: command lines are seen by all

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      PEM file of the authority that signed the daemon's certificate [default: the system's]

                      [env: TENURE_CA]

                  --cert <FILE>
                      PEM file with the certificate to present, for daemons that ask for one

                      [env: TENURE_CERT]

                  --key <FILE>
                      PEM file with the key of that certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands then do it themselves, for as long as they run
            --- err
        "#]],
    );
    check(
        &["log", "dump", "--help"],
        expect![[r#"
            exit 0
            --- out
            Print the records of a log as NDJSON, oldest first

            One record per line. A record whose checksum is right but that this version cannot read is printed
            with its bytes and the reason. Where the log is damaged, everything before the damage is printed and
            the exit code is 3.

            Usage: tenure log dump [OPTIONS] <DIR>

            Arguments:
              <DIR>
                      The data directory (the one that holds log/ and snapshots/), or the directory of
                      log.archive

            Options:
                  --from <LSN>
                      Begin with this LSN

                      [default: 1]

                  --to <LSN>
                      End with this LSN

                  --kind <KIND>
                      Only records of this kind; may be given more than once

                      Possible values:
                      - event:  Something that happened
                      - note:   Something observed, which decides nothing
                      - config: Settings that rules read
                      - tick:   Time that went on within a frame
                      - close:  The writer stopped cleanly

                  --json
                      Print data as JSON

              -q, --quiet
                      Say nothing on standard error unless something goes wrong

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      The daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; found by itself unless
                      told. Nodes of a cluster with commas between: the one that answers is asked

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      The token to present

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      A file with the token: command lines are seen by all

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      PEM file of the authority that signed the daemon's certificate [default: the system's]

                      [env: TENURE_CA]

                  --cert <FILE>
                      PEM file with the certificate to present, for daemons that ask for one

                      [env: TENURE_CERT]

                  --key <FILE>
                      PEM file with the key of that certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands then do it themselves, for as long as they run
            --- err
        "#]],
    );
    check(
        &["log", "at", "--help"],
        expect![[r#"
            exit 0
            --- out
            Print who held what at an LSN or at a time

            Rebuilds the state from the newest snapshot before that point, or from the beginning, and prints its
            leases, pools and sessions. A time means right after the last frame that was written up to it.

            Usage: tenure log at [OPTIONS] <LSN|TIME> <DIR>

            Arguments:
              <LSN|TIME>
                      An LSN, a time like 2026-02-07T22:15:00Z, or unix milliseconds

                      A number from 100000000000 on is a time in unix milliseconds, a smaller one is an LSN.

              <DIR>
                      The data directory (the one that holds log/ and snapshots/), or the directory of
                      log.archive

            Options:
                  --json
                      Print data as JSON

              -q, --quiet
                      Say nothing on standard error unless something goes wrong

              -h, --help
                      Print help (see a summary with '-h')

            Finding the daemon:
                  --endpoint <URL>
                      The daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; found by itself unless
                      told. Nodes of a cluster with commas between: the one that answers is asked

                      [env: TENURE_ENDPOINT]

                  --token <TOKEN>
                      The token to present

                      [env: TENURE_TOKEN]

                  --token-from <FILE>
                      A file with the token: command lines are seen by all

                      [env: TENURE_TOKEN_FROM]

                  --ca <FILE>
                      PEM file of the authority that signed the daemon's certificate [default: the system's]

                      [env: TENURE_CA]

                  --cert <FILE>
                      PEM file with the certificate to present, for daemons that ask for one

                      [env: TENURE_CERT]

                  --key <FILE>
                      PEM file with the key of that certificate

                      [env: TENURE_KEY]

                  --standalone
                      Use no daemon: mDNS commands then do it themselves, for as long as they run
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
            hint: tenure --help
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
        hint: a similar subcommand exists: 'verify'
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
        error: --from 9 lies after --to 3
        hint: both ends are printed: --from 5 --to 7 is three records
    "#]],
    );
    check(
        &["log", "at", "yesterday", "x"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value 'yesterday' for '<LSN|TIME>': a time is written like 2026-02-07T22:15:00Z or 2026-02-07T23:15:00.250+01:00, not before 1970
            hint: tenure --help
        "#]],
    );
    check(
        &["log", "at", "99999999999999999999999", "x"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '99999999999999999999999' for '<LSN|TIME>': number too large to fit in target type
            hint: tenure --help
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
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        verify empty: error: there is no log in DIR/empty
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        verify bare: error: there is no log in DIR/bare
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        verify file: error: this is not a directory: DIR/file
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        dump missing: error: there is no directory DIR/missing
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        dump empty: error: there is no log in DIR/empty
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        dump bare: error: there is no log in DIR/bare
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        dump file: error: this is not a directory: DIR/file
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        at missing: error: there is no directory DIR/missing
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        at empty: error: there is no log in DIR/empty
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        at bare: error: there is no log in DIR/bare
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
        at file: error: this is not a directory: DIR/file
        hint: give the data directory of a daemon: the one that holds log/ and snapshots/
    "#]]
    .assert_eq(&out);
}
