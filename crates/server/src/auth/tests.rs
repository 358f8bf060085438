//! Who is let in, with what scope, and when the daemon refuses to start.

use super::*;
use expect_test::expect;
use std::fs;

fn settings() -> AuthSettings {
    AuthSettings {
        bind: IpAddr::from([127, 0, 0, 1]),
        local: Some(Scope::Admin),
        token_file: None,
        insecure_no_auth: false,
        tls: false,
        client_certificates: false,
        certificate_scope: Some(Scope::Hold),
        certificate_scope_file: None,
        certified_names: CertifiedNames::default(),
        server_names: Vec::new(),
        allow_origin: Vec::new(),
        requests_per_second: 0,
        machine: None,
        uid: 990,
        gid: 991,
    }
}

fn auth(settings: AuthSettings) -> Auth {
    let address = SocketAddr::new(settings.bind, 5641);
    let auth = Auth::new(settings).unwrap();
    auth.listens_on(address);
    auth
}

fn near() -> TcpAsk<'static> {
    TcpAsk {
        address: "127.0.0.1:40000".parse().unwrap(),
        uid: None,
        is_forwarded: false,
        certificate: None,
        authorization: None,
        signed_in: None,
        host: Some("127.0.0.1:5641"),
        origin: None,
        fetch: Fetch::default(),
        foreign: ForeignPages::Nothing,
        any_host: false,
        needs_credential: true,
        writes: false,
    }
}

fn far() -> TcpAsk<'static> {
    TcpAsk { address: "10.1.2.3:40000".parse().unwrap(), host: Some("10.0.0.1:5641"), ..near() }
}

fn shown(subject: &str) -> CertificateNames {
    CertificateNames { subject: subject.to_owned(), alternatives: Vec::new() }
}

fn said(outcome: Result<Option<Admitted>, Error>) -> String {
    match outcome {
        Ok(Some(Admitted { principal, scope, .. })) => format!("{principal} {}", scope.as_str()),
        Ok(None) => "nobody".to_owned(),
        Err(error) => error.code.to_string(),
    }
}

/// A token file with a plain scope each.
fn token_file(lines: &[(&str, Scope, &str)]) -> (tempfile::TempDir, PathBuf) {
    let lines: Vec<_> = lines.iter().map(|(name, scope, token)| (*name, scope.as_str(), *token)).collect();
    token_file_of(&lines)
}

fn token_file_of(lines: &[(&str, &str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    let text: String = lines
        .iter()
        .map(|(name, scope, token)| {
            let scope = TokenScope::parse(scope).unwrap();
            let entry = TokenEntry { name: (*name).to_owned(), scope, hash: token_hash(token) };
            format!("{entry}\n")
        })
        .collect();
    fs::write(&path, text).unwrap();
    (directory, path)
}

#[test]
fn this_machine_has_the_scope_of_the_setting() {
    for (local, expected) in [
        (Some(Scope::Admin), "local admin"),
        (Some(Scope::Hold), "local hold"),
        (Some(Scope::Read), "local read"),
        (None, "unauthorized"),
    ] {
        let auth = auth(AuthSettings { local, ..settings() });
        assert_eq!(said(auth.tcp_at(&near(), 0)), expected);
        let mapped = TcpAsk { address: "[::ffff:127.0.0.1]:40000".parse().unwrap(), ..near() };
        assert_eq!(said(auth.tcp_at(&mapped, 0)), expected);
        let public = TcpAsk { needs_credential: false, ..near() };
        assert!(auth.tcp_at(&public, 0).is_ok());
    }
}

#[test]
fn a_program_of_this_machine_is_its_user() {
    // The daemon runs as 990.
    for (local, others) in [(Some(Scope::Hold), "uid:1000 hold"), (None, "unauthorized")] {
        let auth = auth(AuthSettings { local, ..settings() });
        let of = |uid| said(auth.tcp_at(&TcpAsk { uid: Some(uid), ..near() }, 0));
        assert_eq!([of(0), of(990), of(1_000)], ["uid:0 admin", "uid:990 admin", others]);
    }
    // An address of elsewhere has no user here, whatever is said.
    let auth = auth(AuthSettings { insecure_no_auth: true, local: Some(Scope::Hold), ..settings() });
    let elsewhere = TcpAsk { uid: Some(0), host: near().host, ..far() };
    assert_eq!(said(auth.tcp_at(&elsewhere, 0)), "local hold");
    assert_eq!(said(auth.tcp_at(&TcpAsk { uid: Some(0), ..near() }, 0)), "uid:0 admin");
}

// In a cluster uid 1000 of one machine released what uid 1000 of another held.
#[test]
fn on_a_node_a_program_of_this_machine_is_named_with_its_machine() {
    let machine = || Some("3f9a".to_owned());
    let node = auth(AuthSettings { machine: machine(), ..settings() });
    assert_eq!(said(node.tcp_at(&TcpAsk { uid: Some(1_000), ..near() }, 0)), "uid:1000@3f9a admin");
    assert_eq!(said(node.tcp_at(&near(), 0)), "local@3f9a admin");
    let peer = SocketPeer { uid: 990, gid: 1, groups: Vec::new() };
    assert_eq!(&*node.socket(&peer).unwrap().principal, "uid:990@3f9a");
    // A caller that comes through one node and then another must be the same there.
    let open =
        AuthSettings { machine: machine(), insecure_no_auth: true, local: Some(Scope::Hold), ..settings() };
    let open = auth(open);
    assert_eq!(said(open.tcp_at(&TcpAsk { host: near().host, ..far() }, 0)), "local hold");
    assert_eq!(said(open.tcp_at(&TcpAsk { uid: Some(1_000), ..near() }, 0)), "local hold");
    assert_eq!(said(open.tcp_at(&TcpAsk { uid: Some(0), ..near() }, 0)), "local admin");
    let (_directory, path) = token_file(&[("ci", Scope::Hold, "sesame")]);
    let tokens = auth(AuthSettings { machine: machine(), token_file: Some(path), ..settings() });
    let shown = TcpAsk { authorization: Some("Bearer sesame"), ..near() };
    assert_eq!(said(tokens.tcp_at(&shown, 0)), "token:ci hold");
}

#[test]
fn what_a_proxy_passed_on_is_nobody_of_this_machine() {
    let closed = auth(settings());
    let forwarded = TcpAsk { uid: Some(0), is_forwarded: true, ..near() };
    assert_eq!(said(closed.tcp_at(&forwarded, 0)), "unauthorized");
    assert_eq!(said(closed.tcp_at(&TcpAsk { uid: None, ..forwarded }, 0)), "unauthorized");
    assert_eq!(said(closed.tcp_at(&TcpAsk { needs_credential: false, ..forwarded }, 0)), "nobody");
    // Everybody who reaches the port is local there, and no more.
    let open = auth(AuthSettings { insecure_no_auth: true, local: Some(Scope::Hold), ..settings() });
    assert_eq!(said(open.tcp_at(&forwarded, 0)), "local hold");
    let (_directory, path) = token_file(&[("ci", Scope::Hold, "sesame")]);
    let tokens = auth(AuthSettings { token_file: Some(path), ..settings() });
    let shown = TcpAsk { authorization: Some("Bearer sesame"), ..forwarded };
    assert_eq!(said(tokens.tcp_at(&shown, 0)), "token:ci hold");
}

// The header was left out of account: a token for one prefix came in as the daemon's own user, who may do everything.
#[test]
fn without_tokens_a_token_is_not_left_out_of_account() {
    let open = AuthSettings { insecure_no_auth: true, ..settings() };
    for auth in [auth(settings()), auth(open)] {
        let with = |authorization| TcpAsk { authorization: Some(authorization), ..near() };
        let error = auth.tcp_at(&with("Bearer of-another-daemon"), 0).unwrap_err();
        assert_eq!(
            (error.code, &error.details["setting"]),
            (ErrorCode::Unauthorized, &"auth.token_file".into())
        );
        assert_eq!(said(auth.tcp_at(&TcpAsk { uid: Some(0), ..with("bearer x") }, 0)), "unauthorized");
        // Other schemes are between the caller and a proxy.
        assert_eq!(said(auth.tcp_at(&with("Basic eDp5"), 0)), "local admin");
        let public = TcpAsk { needs_credential: false, ..with("Bearer of-another-daemon") };
        assert_eq!(said(auth.tcp_at(&public, 0)), "nobody");
    }
}

#[test]
fn with_a_token_file_everybody_needs_a_token() {
    let (_directory, path) = token_file(&[("ci", Scope::Hold, "sesame"), ("boss", Scope::Admin, "open")]);
    let auth = auth(AuthSettings { bind: IpAddr::from([0, 0, 0, 0]), token_file: Some(path), ..settings() });
    let with = |ask: TcpAsk<'_>, authorization| said(auth.tcp_at(&TcpAsk { authorization, ..ask }, 0));
    let other = shown("CN=x");
    for ask in [near(), far()] {
        assert_eq!(with(ask, None), "unauthorized");
        assert_eq!(with(ask, Some("Bearer sesame")), "token:ci hold");
        assert_eq!(with(ask, Some("bearer   open ")), "token:boss admin");
        assert_eq!(with(ask, Some("Bearer sesam")), "unauthorized");
        assert_eq!(with(ask, Some("Bearer ")), "unauthorized");
        assert_eq!(with(ask, Some("Basic sesame")), "unauthorized");
        assert_eq!(with(ask, Some("sesame")), "unauthorized");
        // A certificate does not stand for a token.
        assert_eq!(with(TcpAsk { certificate: Some(&other), ..ask }, None), "unauthorized");
    }
    let public = TcpAsk { needs_credential: false, ..far() };
    assert_eq!(said(auth.tcp_at(&public, 0)), "nobody");
    let known = TcpAsk { authorization: Some("Bearer sesame"), ..public };
    assert_eq!(said(auth.tcp_at(&known, 0)), "token:ci hold");
}

#[test]
fn a_certificate_is_a_principal() {
    let auth = auth(AuthSettings {
        bind: IpAddr::from([10, 0, 0, 1]),
        tls: true,
        client_certificates: true,
        certificate_scope: Some(Scope::Admin),
        ..settings()
    });
    let node = shown("CN=node-7,O=Lab");
    let ask = TcpAsk { certificate: Some(&node), ..far() };
    assert_eq!(said(auth.tcp_at(&ask, 0)), "cert:CN=node-7,O=Lab admin");
    assert_eq!(said(auth.tcp_at(&far(), 0)), "unauthorized");
    assert_eq!(said(auth.tcp_at(&near(), 0)), "unauthorized", "this machine is no exception");
}

#[test]
fn a_line_of_the_file_says_what_a_certificate_may_do_and_others_have_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("certificates");
    fs::write(&path, "CN=ci hold:build/*\nCN=boss admin\n").unwrap();
    let with = |default: Option<Scope>| {
        auth(AuthSettings {
            tls: true,
            client_certificates: true,
            certificate_scope: default,
            certificate_scope_file: Some(path.clone()),
            ..settings()
        })
    };
    let who = |auth: &Auth, name: &str, at: u64| {
        let names = shown(name);
        auth.tcp_at(&TcpAsk { certificate: Some(&names), ..near() }, at)
    };
    for default in [Some(Scope::Read), None] {
        let auth = with(default);
        let ci = who(&auth, "CN=ci", 0).unwrap().unwrap();
        assert_eq!((ci.scope, ci.within.unwrap().patterns()), (Scope::Hold, &["build/*".to_owned()][..]));
        assert_eq!(said(who(&auth, "CN=boss", 0)), "cert:CN=boss admin");
        let other = if default.is_some() { "cert:CN=other read" } else { "forbidden" };
        assert_eq!(said(who(&auth, "CN=other", 0)), other);
    }
    let auth = with(Some(Scope::Admin));
    fs::write(&path, "CN=ci hold:*\n").unwrap();
    let ci = who(&auth, "CN=ci", 5_000).unwrap().unwrap();
    assert!(ci.is_outdated, "a slip in its line does not make it what others are: {ci:?}");
    assert!(auth.outdated().message.contains(&path.display().to_string()));
    let both =
        AuthSettings { token_file: Some(path.clone()), certificate_scope_file: Some(path), ..settings() };
    assert!(matches!(Auth::new(both), Err(AuthError::NoCertificates)));
}

#[test]
fn a_sign_in_of_a_certificate_counts_beside_it_and_follows_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("certificates");
    fs::write(&path, "CN=boss admin\n").unwrap();
    let auth = auth(AuthSettings {
        client_certificates: true,
        certificate_scope_file: Some(path.clone()),
        ..settings()
    });
    let (boss, other) = (shown("CN=boss"), shown("CN=other"));
    let asker = auth.tcp_at(&TcpAsk { certificate: Some(&boss), ..near() }, 0).unwrap().unwrap();
    let cookie = signed_in(&auth, &asker, 0);
    let with = |shown: &CertificateNames, at| {
        let ask = TcpAsk { certificate: Some(shown), signed_in: cookie.halves(), ..near() };
        auth.tcp_at(&ask, at)
            .unwrap()
            .map(|admitted| (admitted.principal.to_string(), admitted.scope, admitted.by_cookie))
    };
    assert_eq!(with(&boss, 0), Some(("cert:CN=boss".to_owned(), Scope::Admin, true)));
    assert_eq!(
        with(&other, 0),
        Some(("cert:CN=other".to_owned(), Scope::Hold, false)),
        "it is not the other's"
    );
    fs::write(&path, "CN=boss read\n").unwrap();
    assert_eq!(with(&boss, 5_000), Some(("cert:CN=boss".to_owned(), Scope::Read, true)));
}

#[test]
fn without_credentials_only_the_insecure_flag_lets_others_in() {
    let open = AuthSettings {
        bind: IpAddr::from([0, 0, 0, 0]),
        insecure_no_auth: true,
        local: Some(Scope::Hold),
        ..settings()
    };
    assert_eq!(said(auth(open).tcp_at(&far(), 0)), "local hold");
    // A router may deliver what was not meant for a loopback address.
    let stray = TcpAsk { host: Some("127.0.0.1:5641"), ..far() };
    assert_eq!(said(auth(settings()).tcp_at(&stray, 0)), "unauthorized");
}

#[test]
fn host_and_origin_are_checked_before_anything_else() {
    let auth = auth(AuthSettings { allow_origin: vec!["https://board.example".to_owned()], ..settings() });
    for needs_credential in [true, false] {
        let ask = TcpAsk { needs_credential, ..near() };
        let rebound = TcpAsk { host: Some("evil.example:5641"), ..ask };
        let foreign = TcpAsk { origin: Some("https://evil.example"), ..ask };
        let allowed = TcpAsk { origin: Some("https://board.example"), ..ask };
        assert_eq!(said(auth.tcp_at(&rebound, 0)), "forbidden");
        assert_eq!(said(auth.tcp_at(&foreign, 0)), "forbidden");
        assert_eq!(said(auth.tcp_at(&allowed, 0)), "local admin");
    }
    assert!(auth.allows_origin("https://board.example"));
    assert!(!auth.allows_origin("http://127.0.0.1:5641"), "the daemon's own pages need no leave");
    assert!(!auth.allows_origin("null"));
}

#[test]
fn a_valid_token_counts_under_every_name() {
    let (_directory, path) = token_file(&[("ci", Scope::Hold, "sesame")]);
    let auth = auth(AuthSettings { token_file: Some(path), ..settings() });
    let cookie = signed_in(&auth, &Admitted::new("uid:7", Scope::Admin), 0);
    let balanced = TcpAsk { host: Some("lease.internal"), ..near() };
    let with = |authorization| TcpAsk { authorization: Some(authorization), ..balanced };
    assert_eq!(said(auth.tcp_at(&with("Bearer sesame"), 0)), "token:ci hold");
    assert_eq!(said(auth.tcp_at(&with("Bearer wrong"), 0)), "forbidden");
    assert_eq!(said(auth.tcp_at(&with("Basic sesame"), 0)), "forbidden");
    assert_eq!(said(auth.tcp_at(&balanced, 0)), "forbidden");
    assert_eq!(said(auth.tcp_at(&TcpAsk { signed_in: cookie.halves(), ..balanced }, 0)), "forbidden");
    for page in ["http://evil.example", "http://lease.internal"] {
        let ask = TcpAsk { origin: Some(page), ..with("Bearer sesame") };
        assert_eq!(said(auth.tcp_at(&ask, 0)), "forbidden", "{page}");
    }
    let without = self::auth(settings());
    assert_eq!(said(without.tcp_at(&with("Bearer sesame"), 0)), "forbidden", "no token is valid here");
}

#[test]
fn probes_are_answered_under_every_name_and_to_no_foreign_page() {
    let auth = auth(settings());
    let probe = TcpAsk { any_host: true, needs_credential: false, ..near() };
    for host in [Some("10.0.0.9"), Some("anything"), Some("?"), None] {
        assert!(auth.tcp_at(&TcpAsk { host, ..probe }, 0).is_ok(), "{host:?}");
        let page = TcpAsk { host, origin: Some("http://evil.example"), ..probe };
        assert_eq!(said(auth.tcp_at(&page, 0)), "forbidden", "{host:?}");
    }
}

#[test]
fn the_socket_knows_its_peers() {
    let auth = auth(settings());
    let who = |uid, gid, groups: &[u32]| {
        said(auth.socket(&SocketPeer { uid, gid, groups: groups.to_vec() }).map(Some))
    };
    assert_eq!(who(990, 5, &[]), "uid:990 admin");
    assert_eq!(who(0, 0, &[]), "uid:0 admin");
    assert_eq!(who(1000, 991, &[]), "uid:1000 hold");
    assert_eq!(who(1000, 1000, &[4, 991]), "uid:1000 hold");
    assert_eq!(who(1000, 1000, &[4, 24]), "forbidden");
}

#[test]
fn beyond_loopback_the_daemon_does_not_start_open() {
    let start = |settings| match Auth::new(settings) {
        Ok(_) => "starts".to_owned(),
        Err(error) => error.to_string(),
    };
    let (_directory, path) = token_file(&[]);
    let everywhere = AuthSettings { bind: "::".parse().unwrap(), ..settings() };
    for bind in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(start(AuthSettings { bind: bind.parse().unwrap(), ..settings() }), "starts");
    }
    expect![[r#":: can be reached from other machines, and no authentication is set: give a token file or a client CA, or accept every caller with --insecure-no-auth"#]]
        .assert_eq(&start(everywhere.clone()));
    assert_eq!(start(AuthSettings { token_file: Some(path.clone()), ..everywhere.clone() }), "starts");
    assert_eq!(start(AuthSettings { client_certificates: true, ..everywhere.clone() }), "starts");
    assert_eq!(start(AuthSettings { insecure_no_auth: true, ..everywhere.clone() }), "starts");
    let both = AuthSettings { insecure_no_auth: true, token_file: Some(path), ..everywhere.clone() };
    assert_eq!(start(both), "--insecure-no-auth contradicts a token file");
    let both = AuthSettings { insecure_no_auth: true, client_certificates: true, ..everywhere };
    assert_eq!(start(both), "--insecure-no-auth contradicts a client CA");
    let wrong = AuthSettings { allow_origin: vec!["board.example".to_owned()], ..settings() };
    assert_eq!(start(wrong), "\"board.example\" is not an origin: write scheme://host or scheme://host:port");
    let wrong = AuthSettings { server_names: vec!["http://board.example".to_owned()], ..settings() };
    expect![[
        r#""http://board.example" is not a name of a server: write NAME or NAME:PORT, without a scheme"#
    ]]
    .assert_eq(&start(wrong));
}

#[test]
fn the_rate_is_off_unless_set() {
    let free = auth(settings());
    assert!((0..10_000).all(|_| free.check_rate("local", || 0).is_ok()));
    let limited = auth(AuthSettings { requests_per_second: 5, ..settings() });
    assert_eq!((0..10).filter(|_| limited.check_rate("local", || 0).is_ok()).count(), 5);
}

/// The cookie's value in a header.
fn value(set_cookie: &str) -> String {
    let (_, rest) = set_cookie.split_once('=').unwrap();
    rest.split(';').next().unwrap().to_owned()
}

/// A cookie and its page value.
struct Kept(String, String);

impl Kept {
    fn halves(&self) -> Option<Halves<'_>> {
        Some(Halves { cookie: &self.0, page: &self.1 })
    }
}

/// Signs somebody in.
fn signed_in(auth: &Auth, who: &Admitted, boot_ms: u64) -> Kept {
    let code = auth.make_code_at(who, boot_ms).unwrap();
    let SignedIn { set_cookie, page, .. } = auth.redeem_at(&code, boot_ms).unwrap();
    Kept(value(&set_cookie), page)
}

#[test]
fn a_cookie_is_whoever_asked_for_it() {
    for local in [Some(Scope::Admin), Some(Scope::Read), None] {
        let auth = auth(AuthSettings { local, ..settings() });
        let cookie = signed_in(&auth, &Admitted::new("uid:7", Scope::Hold), 0);
        let ask = TcpAsk { signed_in: cookie.halves(), ..near() };
        assert_eq!(said(auth.tcp_at(&ask, 0)), "uid:7 hold");
        let last_ms = COOKIE_SECS * 1_000 - 1;
        assert_eq!(said(auth.tcp_at(&ask, last_ms)), "uid:7 hold");
        let without = said(auth.tcp_at(&near(), 0));
        let Kept(value, page) = &cookie;
        for (cookie, page) in [("0123", page.as_str()), (value, ""), (value, "0123"), ("", page)] {
            let wrong = TcpAsk { signed_in: Some(Halves { cookie, page }), ..near() };
            assert_eq!(said(auth.tcp_at(&wrong, 0)), without, "a wrong one is none, and half of one");
        }
        assert_eq!(said(auth.tcp_at(&ask, last_ms + 1)), without, "an old cookie is none");
    }
}

#[test]
fn a_cookie_writes_from_the_daemons_own_pages_alone() {
    let allow_origin = vec!["https://board.example".to_owned()];
    let auth = auth(AuthSettings { local: None, allow_origin, ..settings() });
    let cookie = signed_in(&auth, &Admitted::new("uid:7", Scope::Admin), 0);
    let write = |origin| TcpAsk { signed_in: cookie.halves(), origin, writes: true, ..near() };
    assert_eq!(said(auth.tcp_at(&write(Some("http://127.0.0.1:5641")), 0)), "uid:7 admin");
    assert_eq!(said(auth.tcp_at(&write(None), 0)), "forbidden");
    assert_eq!(said(auth.tcp_at(&write(Some("https://board.example")), 0)), "forbidden");
    let proxied = TcpAsk { host: Some("board.example"), ..write(Some("https://board.example")) };
    assert_eq!(said(auth.tcp_at(&proxied, 0)), "uid:7 admin");
    let look = TcpAsk { signed_in: cookie.halves(), ..near() };
    assert_eq!(said(auth.tcp_at(&look, 0)), "uid:7 admin");
}

#[test]
fn a_code_is_redeemed_by_the_daemons_own_page_alone() {
    let auth = auth(AuthSettings { allow_origin: vec!["https://board.example".to_owned()], ..settings() });
    let code = auth.make_code(&Admitted::new("uid:7", Scope::Admin)).unwrap();
    let host = Some("127.0.0.1:5641");
    for page in [None, Some("null"), Some("https://board.example"), Some("http://localhost:5641")] {
        assert_eq!(auth.redeem(&code, host, page).unwrap_err().code, ErrorCode::Forbidden, "{page:?}");
    }
    let own = Some("http://127.0.0.1:5641");
    assert!(auth.redeem(&code, host, own).unwrap().is_some(), "no refusal has used the code up");
    assert!(auth.redeem(&code, host, own).unwrap().is_none());
}

#[test]
fn a_cookie_makes_no_codes() {
    let auth = auth(settings());
    let cookie = signed_in(&auth, &Admitted::new("uid:7", Scope::Admin), 0);
    let by_cookie = auth.tcp_at(&TcpAsk { signed_in: cookie.halves(), ..near() }, 0).unwrap().unwrap();
    assert_eq!(auth.make_code_at(&by_cookie, 0).unwrap_err().code, ErrorCode::Forbidden);
}

#[test]
fn a_token_counts_for_more_than_a_cookie() {
    let (_directory, path) = token_file(&[("ci", Scope::Hold, "sesame")]);
    let with_tokens = auth(AuthSettings { token_file: Some(path), ..settings() });
    let cookie = signed_in(&with_tokens, &Admitted::new("uid:7", Scope::Admin), 0);
    let ask = |authorization| TcpAsk { authorization, signed_in: cookie.halves(), ..near() };
    assert_eq!(said(with_tokens.tcp_at(&ask(None), 0)), "uid:7 admin");
    assert_eq!(said(with_tokens.tcp_at(&ask(Some("Bearer sesame")), 0)), "token:ci hold");
    for wrong in ["Bearer wrong", "Basic x", ""] {
        assert_eq!(said(with_tokens.tcp_at(&ask(Some(wrong)), 0)), "unauthorized", "{wrong:?}");
    }
    let without = auth(settings());
    let cookie = signed_in(&without, &Admitted::new("uid:7", Scope::Hold), 0);
    let ask =
        TcpAsk { authorization: Some("Bearer of-another-daemon"), signed_in: cookie.halves(), ..near() };
    assert_eq!(said(without.tcp_at(&ask, 0)), "unauthorized");
}

#[test]
fn a_cookie_ends_with_the_token_it_rests_on() {
    let (_directory, path) = token_file(&[("ci", Scope::Admin, "sesame"), ("boss", Scope::Admin, "open")]);
    let write = |entries: &[(&str, Scope, &str)]| {
        let (_other, draft) = token_file(entries);
        let text = fs::read_to_string(draft).unwrap();
        fs::write(path.with_extension("draft"), text).unwrap();
        fs::rename(path.with_extension("draft"), &path).unwrap();
    };
    let auth = auth(AuthSettings { token_file: Some(path.clone()), ..settings() });
    let asker = |authorization, at| {
        auth.tcp_at(&TcpAsk { authorization: Some(authorization), ..near() }, at).unwrap().unwrap()
    };
    let cookie = signed_in(&auth, &asker("Bearer sesame", 0), 0);
    let of_boss = signed_in(&auth, &asker("Bearer open", 0), 0);
    let code = auth.make_code_at(&asker("Bearer sesame", 0), 0).unwrap();
    let who = |cookie: &Kept, at| said(auth.tcp_at(&TcpAsk { signed_in: cookie.halves(), ..near() }, at));
    assert_eq!(who(&cookie, 0), "token:ci admin");

    write(&[("ci", Scope::Read, "sesame"), ("boss", Scope::Admin, "open")]);
    assert_eq!(who(&cookie, 10_000), "token:ci read", "what the token may do now");
    write(&[("ci", Scope::Admin, "another"), ("boss", Scope::Admin, "open")]);
    assert_eq!(who(&cookie, 20_000), "unauthorized", "another token of that name");
    assert!(auth.redeem_at(&code, 20_000).is_none());
    write(&[("ci", Scope::Admin, "sesame"), ("boss", Scope::Admin, "open")]);
    assert_eq!(who(&cookie, 30_000), "unauthorized", "what has ended does not come back");
    assert_eq!(who(&of_boss, 30_000), "token:boss admin");
    write(&[("ci", Scope::Admin, "sesame")]);
    assert_eq!(who(&of_boss, 40_000), "unauthorized");
}

#[test]
fn a_cookie_takes_no_more_than_its_token_did_and_does() {
    let (_directory, path) = token_file_of(&[("ci", "hold:build/*", "sesame")]);
    let write = |scope: &str| {
        let (_other, draft) = token_file_of(&[("ci", scope, "sesame")]);
        fs::write(path.with_extension("draft"), fs::read_to_string(draft).unwrap()).unwrap();
        fs::rename(path.with_extension("draft"), &path).unwrap();
    };
    let auth = auth(AuthSettings { token_file: Some(path.clone()), ..settings() });
    let names = |admitted: &Admitted| admitted.within.as_ref().map(ToString::to_string);
    let by_token =
        |at| auth.tcp_at(&TcpAsk { authorization: Some("Bearer sesame"), ..near() }, at).unwrap().unwrap();
    assert_eq!(names(&by_token(0)).as_deref(), Some("build/*"));
    let cookie = signed_in(&auth, &by_token(0), 0);
    let by_cookie = |at| auth.tcp_at(&TcpAsk { signed_in: cookie.halves(), ..near() }, at).ok().flatten();
    assert_eq!(names(&by_cookie(0).unwrap()).as_deref(), Some("build/*"));
    write("admin");
    assert_eq!(names(&by_token(10_000)), None);
    let widened = by_cookie(10_000).unwrap();
    assert_eq!((widened.scope, names(&widened).as_deref()), (Scope::Hold, Some("build/*")));
    let wide = signed_in(&auth, &by_token(10_000), 10_000);
    write("hold:gpu/*");
    assert_eq!(by_cookie(20_000), None, "neither of two sets of names");
    let narrowed = auth.tcp_at(&TcpAsk { signed_in: wide.halves(), ..near() }, 20_000).unwrap().unwrap();
    assert_eq!((narrowed.scope, names(&narrowed).as_deref()), (Scope::Hold, Some("gpu/*")));
}

#[test]
fn a_cookie_does_not_stand_for_a_certificate() {
    let auth = auth(AuthSettings { tls: true, client_certificates: true, ..settings() });
    let cookie = signed_in(&auth, &Admitted::new("uid:7", Scope::Admin), 0);
    let ask =
        |certificate| said(auth.tcp_at(&TcpAsk { signed_in: cookie.halves(), certificate, ..near() }, 0));
    assert_eq!(ask(None), "unauthorized");
    let ci = shown("CN=ci");
    assert_eq!(ask(Some(&ci)), "uid:7 admin");
}

#[test]
fn the_cookie_is_for_this_daemon_and_no_script() {
    let plain = auth(settings());
    let code = plain.make_code_at(&Admitted::new("local", Scope::Admin), 0).unwrap();
    let header = plain.redeem_at(&code, 0).unwrap().set_cookie;
    let kept = value(&header);
    assert_eq!(
        header.replace(&kept, "VALUE"),
        "tenure_5641=VALUE; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200"
    );
    let encrypted = auth(AuthSettings { tls: true, ..settings() });
    assert_eq!(
        encrypted.set_cookie("", 0),
        "tenure_5641=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0; Secure"
    );
}
