//! Wrong usage of the commands that talk to a daemon; none of it needs one.

use std::fs;

use expect_test::{Expect, expect};

use crate::cli_desk::Desk;

fn check(arguments: &[&str], expected: Expect) {
    expected.assert_eq(&Desk::new().tenure(arguments).all());
}

#[test]
fn durations_need_a_unit() {
    check(
        &["lease", "acquire", "printer", "--ttl", "30"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '30' for '--ttl <DURATION>': a duration needs a unit, as in 30s or 30ms
            hint: tenure lease acquire --help
        "#]],
    );
    check(
        &["lease", "acquire", "printer", "--wait", "soon"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value 'soon' for '--wait <DURATION>': expected a duration like 500ms, 30s, 1m30s or 2h
            hint: tenure lease acquire --help
        "#]],
    );
}

#[test]
fn a_lease_of_nothing_is_refused_before_anybody_is_asked() {
    check(
        &["lease", "acquire"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: no resource and no pool given
            hint: name a resource, or a pool with --pool POOL=N
        "#]],
    );
    check(
        &["lease", "acquire", "--pool", "gpu"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value 'gpu' for '--pool <POOL=N>': expected POOL=N, as in gpu=2
            hint: tenure lease acquire --help
        "#]],
    );
    check(
        &["lease", "acquire", "--pool", "gpu=1", "--pool", "gpu=2"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: --pool gpu is given twice
            hint: give the sum once: --pool POOL=N
        "#]],
    );
    check(
        &["lease", "acquire", "printer", "--ttl", "0s"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '0s' for '--ttl <DURATION>': expected 1s to 24h
            hint: tenure lease acquire --help
        "#]],
    );
    check(
        &["lease", "acquire", "printer", "--permanent", "--ttl", "5s"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: the argument '--permanent' cannot be used with '--ttl <DURATION>'
        hint: tenure lease acquire --help
    "#]],
    );
    check(
        &["lease", "acquire", "printer", "--attachment", "{x}"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: invalid value '{x}' for '--attachment <JSON>': not JSON: key must be a string at line 1 column 2; quote a string twice, as in '"x"'
            hint: tenure lease acquire --help
        "#]],
    );
    check(
        &["lease", "rebind", "printer"],
        expect![[r#"
            exit 2
            --- out
            --- err
            error: nothing to change
            hint: give --holder, --session or --attachment
        "#]],
    );
}

#[test]
fn whatever_ends_something_needs_a_terminal_or_consent() {
    let expected = expect![[r#"
        exit 2
        --- out
        --- err
        error: this command needs confirmation, but standard input is not a terminal
        hint: --yes does it without asking
    "#]];
    for arguments in [
        &["lease", "revoke", "printer"][..],
        &["lease", "reclaim", "printer", "--force"],
        &["lease", "drain", "printer"],
        &["pool", "rm", "gpu"],
        &["admin", "shutdown", "--end-all"],
    ] {
        expected.assert_eq(&Desk::new().tenure(arguments).all());
    }
}

#[test]
fn a_check_needs_a_fence_or_an_epoch() {
    check(
        &["check", "printer"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: the following required arguments were not provided: <--fence <FENCE>|--epoch <EPOCH>>
        hint: tenure check --help
    "#]],
    );
}

#[test]
fn a_story_is_read_in_one_way() {
    check(
        &["why", "x", "--lease", "--resource"],
        expect![[r#"
        exit 2
        --- out
        --- err
        error: the argument '--lease' cannot be used with '--resource'
        hint: tenure why --help
    "#]],
    );
}

#[test]
fn a_backup_replaces_nothing_by_accident() {
    let desk = Desk::new();
    fs::write(desk.path().join("x.tar"), "mine").unwrap();
    expect![[r#"
        exit 1
        --- out
        --- err
        error: DIR/x.tar already exists
        hint: --force overwrites the file
    "#]]
    .assert_eq(&desk.tenure(&["backup", "DIR/x.tar"]).all());
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = Desk::new().tenure(&["completions", shell]);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{shell}");
        assert!(answer.out.contains("acknowledge"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let desk = Desk::new();
    let answer = desk.tenure(&["man", "DIR/man"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    for page in ["tenure.1", "tenure-lease.1", "tenure-lease-acquire.1", "tenure-admin-session-open.1"] {
        let text = fs::read_to_string(desk.path().join("man").join(page)).unwrap();
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page}");
    }
}
