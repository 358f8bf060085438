//! Tokens and certificates, presented by the command line.

use std::fs;

use expect_test::expect;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

use crate::cli_daemon::{Daemon, scrubbed};

/// Writes a root, a certificate for the daemon and one for a caller into the daemon's desk.
fn certify(daemon: &Daemon) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "root");
    let key = KeyPair::generate().unwrap();
    fs::write(daemon.path("root.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let root = Issuer::new(params, key);
    for name in ["server", "alice"] {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        fs::write(daemon.path(&format!("{name}.pem")), params.signed_by(&key, &root).unwrap().pem()).unwrap();
        fs::write(daemon.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

#[test]
fn a_token_is_asked_for_and_presented() {
    let mut daemon = Daemon::prepared(&["--token-file", "DIR/tokens"]);
    let made = daemon.tenure(&["token", "new", "ci", "--scope", "hold", "--file", "DIR/tokens", "--quiet"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let token = made.out.trim();
    daemon.start_again();
    let http = format!("http://{}", daemon.address());
    let shown = |arguments: &[&str]| {
        let answer = daemon.tenure(&[&["--endpoint", &http, "--quiet"], arguments].concat());
        scrubbed(&answer.all(), &daemon.tag())
    };
    expect![[r#"
        exit 1
        --- out
        --- err
        error: a token is needed: send it in the header `Authorization: Bearer TOKEN` (unauthorized)
        hint: send a token with --token or TENURE_TOKEN; tenure token new creates one
    "#]]
    .assert_eq(&shown(&["lease", "ls"]));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the token is not known (unauthorized)
        hint: send a token with --token or TENURE_TOKEN; tenure token new creates one
    "#]]
    .assert_eq(&shown(&["lease", "ls", "--token", "wrong"]));
    expect![[r#"
        exit 0
        --- out
        --- err
    "#]]
    .assert_eq(&shown(&["lease", "ls", "--token", token]));
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the request needs scope admin, the credentials have hold (forbidden)
        hint: use other credentials: another --token, or the daemon's own user
    "#]]
    .assert_eq(&shown(&["pool", "set", "gpu", "2", "--token", token]));
    let mut by_environment = daemon.command(&["lease", "acquire", "printer", "--endpoint", &http]);
    assert_eq!(daemon.desk.answer(by_environment.env("TENURE_TOKEN", token)).code, 0);
    // Where the socket is there, it needs no token: there we are known by our user id.
    assert_eq!(daemon.tenure(&["lease", "ls"]).code, 0);
}

// The daemon left the token out of account, and the caller was its own user, who may do everything.
#[test]
fn a_token_for_a_daemon_without_tokens_is_an_error_that_says_so() {
    let daemon = Daemon::start();
    let http = format!("http://{}", daemon.address());
    let shown = |arguments: &[&str]| scrubbed(&daemon.tenure(arguments).all(), &daemon.tag());
    expect![[r#"
        exit 1
        --- out
        --- err
        error: the token cannot be checked: this daemon has no tokens (auth.token_file is not set) (unauthorized)
        hint: omit --token and --token-from (TENURE_TOKEN, TENURE_TOKEN_FROM), or start the daemon with --token-file
    "#]]
    .assert_eq(&shown(&["lease", "ls", "--endpoint", &http, "--token", "of-another-daemon"]));
    assert_eq!(daemon.tenure(&["lease", "ls", "--endpoint", &http]).code, 0);
    // On the socket the user counts, with tokens and without.
    expect![[r#"
        exit 0
        --- out
        --- err
        note: the token is not used: on the Unix socket the daemon knows you by your user
        0 leases at lsn 0
    "#]]
    .assert_eq(&shown(&["lease", "ls", "--token", "of-another-daemon"]));
    let mut by_environment = daemon.command(&["lease", "ls"]);
    let answer = daemon.desk.answer(by_environment.env("TENURE_TOKEN", "of-another-daemon"));
    assert_eq!((answer.code, answer.err.contains("note:")), (0, false), "{}", answer.err);
}

#[test]
fn a_daemon_with_certificates_is_trusted_by_its_root_and_shown_ours() {
    let mut daemon = Daemon::prepared(&[
        "--tls-cert",
        "DIR/server.pem",
        "--tls-key",
        "DIR/server.key",
        "--client-ca",
        "DIR/root.pem",
    ]);
    certify(&daemon);
    daemon.start_again();
    let https = format!("https://{}", daemon.address());
    let ask =
        |arguments: &[&str]| daemon.tenure(&[&["--endpoint", &https, "lease", "ls"], arguments].concat());
    let shown = ["--ca", "DIR/root.pem", "--cert", "DIR/alice.pem", "--key", "DIR/alice.key"];
    let answer = ask(&shown);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let nameless = ask(&shown[..2]);
    assert_eq!((nameless.code, nameless.out.as_str()), (3, ""), "{}", nameless.err);
    let distrusted = ask(&["--ca", "DIR/alice.pem"]);
    assert_eq!((distrusted.code, distrusted.out.as_str()), (3, ""), "{}", distrusted.err);
    assert!(!distrusted.err.contains("is not running"), "{}", distrusted.err);
    assert!(distrusted.err.contains("with --ca FILE or TENURE_CA"), "{}", distrusted.err);
}

#[test]
fn a_daemon_whose_authority_the_system_trusts_needs_no_more_than_a_token() {
    let mut daemon = Daemon::prepared(&[
        "--tls-cert",
        "DIR/server.pem",
        "--tls-key",
        "DIR/server.key",
        "--token-file",
        "DIR/tokens",
    ]);
    certify(&daemon);
    let made = daemon.tenure(&["token", "new", "ci", "--scope", "hold", "--file", "DIR/tokens", "--quiet"]);
    daemon.start_again();
    let https = format!("https://{}", daemon.address());
    // As the guide about security has it, on a machine that trusts the root.
    let ask = |roots: &str, arguments: &[&str]| {
        let mut command = daemon.command(&[&["--endpoint", &https, "status"], arguments].concat());
        command.env("TENURE_TOKEN", made.out.trim()).env("SSL_CERT_FILE", daemon.path(roots));
        daemon.desk.answer(command.env_remove("SSL_CERT_DIR"))
    };
    let trusting = ask("root.pem", &[]);
    assert_eq!(trusting.code, 0, "{}", trusting.all());
    let distrusting = ask("alice.pem", &[]);
    assert_eq!((distrusting.code, distrusting.out.as_str()), (3, ""), "{}", distrusting.err);
    assert!(distrusting.err.contains("with --ca FILE or TENURE_CA"), "{}", distrusting.err);
    assert_eq!(ask("alice.pem", &["--ca", "DIR/root.pem"]).code, 0, "--ca takes the place of the roots");
    assert_eq!(ask("root.pem", &["--ca", "DIR/alice.pem"]).code, 3, "it does not add to them");
}
