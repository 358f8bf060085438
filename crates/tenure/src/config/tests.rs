//! Every key by every way, and every way of getting it wrong.

use super::*;
use expect_test::expect;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tenure_engine::EngineConfig;
use tenure_engine::host::HostOptions;
use tenure_log::{FileLogOptions, Genesis};

/// Settings that do without each other only where none is set.
const TLS: &[&str] = &["server.tls_cert", "server.tls_key", "server.client_ca"];
/// What `on_end` is needed for.
const HOOK: &[&str] = &["sessions.reuse", "sessions.on_end_ca", "sessions.on_end_secret_file"];

fn root() -> Environment {
    Environment::of(&[], true)
}

fn load(flags: &[&str], variables: &[(&str, &str)], file: Option<&Path>) -> Result<Settings, ConfigError> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mut flags = Flags::from_arguments(&flags).unwrap();
    // The machine's own file is no part of a test.
    flags.config = Some(file.unwrap_or(Path::new("/dev/null")).to_owned());
    Settings::load(&flags, &Environment::of(variables, true))
}

fn file(text: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tenure.toml");
    fs::write(&path, text).unwrap();
    (directory, path)
}

fn refusal(text: &str) -> String {
    let (directory, path) = file(text);
    let error = load(&[], &[], Some(&path)).unwrap_err().to_string();
    error.replace(&directory.path().display().to_string(), "DIR")
}

/// A key's value and origin.
fn at(settings: &Settings, path: &str) -> (String, Origin) {
    let place = KEYS.iter().position(|key| key.path == path).unwrap();
    ((KEYS[place].shown)(settings), settings.origins[place].clone())
}

/// The keys that this one cannot do without.
fn companions(path: &str) -> impl Iterator<Item = &'static Key> {
    let needed = match path {
        path if TLS.contains(&path) => &TLS[..2],
        "server.client_crl" | "auth.cert_scope_file" => TLS,
        path if HOOK.contains(&path) => &["sessions.on_end"],
        _ => &[],
    };
    KEYS.iter().filter(move |key| needed.contains(&key.path) && key.path != path)
}

fn no_flags() -> Flags {
    Flags::from_arguments(&["--config=/dev/null".to_owned()]).unwrap()
}

/// The settings with one key set by a flag.
fn with(path: &str, text: &str) -> Settings {
    let mut flags = no_flags();
    flags.set(path, text);
    companions(path).for_each(|other| flags.set(other.path, other.example));
    Settings::load(&flags, &root()).unwrap()
}

#[test]
fn the_table_is_sound() {
    let defaults = load(&[], &[], None).unwrap();
    for key in KEYS {
        assert!(key.docs[0].trim().len() > 3 && !key.docs[0].ends_with('.'), "{}", key.path);
        (key.check)(key.example).unwrap_or_else(|problem| panic!("{}: {problem}", key.path));
        let (shown, origin) = at(&defaults, key.path);
        assert_eq!(origin, Origin::Default, "{}", key.path);
        assert_ne!(
            at(&with(key.path, key.example), key.path).0,
            shown,
            "{}: the example is the default",
            key.path
        );
    }
    for (index, key) in KEYS.iter().enumerate() {
        let same = |other: &&Key| {
            other.path == key.path || other.flag == key.flag || other.variable() == key.variable()
        };
        assert_eq!(KEYS[index + 1..].iter().find(same).map(|other| other.path), None);
    }
}

#[test]
fn every_key_can_be_set_by_file_environment_and_flag_in_that_order_of_weight() {
    for key in KEYS {
        let others: Vec<String> =
            companions(key.path).map(|other| format!("--{}={}", other.flag, other.example)).collect();
        let mut flags: Vec<&str> = others.iter().map(String::as_str).collect();
        let wanted = at(&with(key.path, key.example), key.path).0;
        let preset = match key.preset {
            Preset::Text(text) | Preset::ByUser { root: text, .. } => text.to_owned(),
            Preset::Place(place) => place(&Places::of(&root())).unwrap().display().to_string(),
        };

        let (_directory, path) = file(&format!("# one\n[{}]\n{} = {wanted}\n", key.section, key.name));
        let settings = load(&flags, &[], Some(&path)).unwrap();
        assert_eq!(at(&settings, key.path), (wanted.clone(), Origin::File { line: 3 }), "{}", key.path);

        let variable = key.variable();
        let (_other_directory, other) = file(&format!("[{}]\n{} = '{preset}'\n", key.section, key.name));
        let settings = load(&flags, &[(&variable, key.example)], Some(&other)).unwrap();
        assert_eq!(at(&settings, key.path), (wanted.clone(), Origin::Environment), "{}", key.path);

        let flag = format!("--{}={}", key.flag, key.example);
        flags.push(&flag);
        let settings = load(&flags, &[(&variable, &preset)], Some(&other)).unwrap();
        assert_eq!(at(&settings, key.path), (wanted, Origin::Flag), "{}", key.path);
    }
}

#[test]
fn defaults_are_those_of_the_parts() {
    let settings = load(&[], &[], None).unwrap();
    assert_eq!(format!("{:?}", settings.engine_config()), format!("{:?}", EngineConfig::default()));
    assert_eq!(format!("{:?}", settings.host_options()), format!("{:?}", HostOptions::default()));
    let genesis = Genesis { random: [0; 16], unix_seconds: 0, shard: 0 };
    let log = FileLogOptions::new(genesis, 0);
    assert_eq!(
        (settings.log.segment_bytes.0, settings.log.free_bytes.0),
        (log.segment_bytes, log.free_bytes_min)
    );
}

/// What each part is told, in one text.
fn told(settings: &Settings) -> String {
    let Settings { server, limits, log, .. } = settings;
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        settings.stream_options(),
        settings.hook_plan(),
        settings.sessions.expiry_check_interval,
        settings.network_plan(),
        settings.registration_options(),
        settings.engine_config(),
        settings.host_options(),
        settings.tls_files(),
        settings.auth_settings(None),
        settings.json_log(),
        (server.port, &server.data_dir, &server.run_dir, &server.socket, &server.tls_cert, &server.tls_key),
        (&limits.connections, &limits.body_bytes, &limits.bodies_bytes, &limits.line_bytes, &limits.watches),
        (limits.waiters_per_connection, settings.timeouts()),
        (&log.segment_bytes, &log.free_bytes, &log.archive, &log.level),
        // A plan reads files and needs several of them together; it takes every one as it stands.
        settings.cluster,
    )
}

#[test]
fn every_key_reaches_the_part_that_reads_it() {
    let defaults = told(&load(&[], &[], None).unwrap());
    for key in KEYS {
        assert_ne!(told(&with(key.path, key.example)), defaults, "{} changes nothing", key.path);
    }
}

#[test]
fn the_daemon_is_called_by_the_names_given_and_by_the_one_it_advertises() {
    let names = |flags: &[&str]| load(flags, &[], None).unwrap().auth_settings(None).server_names;
    assert_eq!(names(&[]), Vec::<String>::new());
    let given = ["--server-name=lease.example", "--server-name=lb.example:443"];
    assert_eq!(names(&given), ["lease.example", "lb.example:443"]);
    assert_eq!(names(&["--advertise=https://node-1.example:5641/"]), ["node-1.example:5641"]);
    assert_eq!(names(&["--advertise=http://[fd00::1]:5641", given[0]]), ["lease.example", "[fd00::1]:5641"]);
}

#[test]
fn the_printed_configuration_can_be_read_again() {
    let (_directory, path) = file("[limits]\nleases = 1_000\n");
    let flags = ["--port=7000", "--allow-origin=https://a.example", "--allow-origin=https://b.example"];
    let settings = load(&flags, &[("TENURE_BREAKER_WINDOW", "90s")], Some(&path)).unwrap();
    let text = settings.to_text().replace(&path.display().to_string(), "FILE");
    for line in [
        "port = 7000  # flag --port",
        "allow_origin = [\"https://a.example\", \"https://b.example\"]  # flag --allow-origin",
        "window = \"1m30s\"  # environment TENURE_BREAKER_WINDOW",
        "leases = 1000  # file FILE:2",
        "fraction = 0.5  # default",
        "data_dir = \"/var/lib/tenure\"  # default",
        "tls_cert = \"\"  # default",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    let (_other_directory, other) = file(&text);
    let again = load(&[], &[], Some(&other)).unwrap();
    assert_eq!(told(&again), told(&settings));
    let json = settings.to_json();
    assert_eq!(json["server"]["port"]["value"], 7000);
    assert_eq!(json["server"]["port"]["from"], "flag --port");
    assert_eq!(json["server"]["allow_origin"]["value"][1], "https://b.example");
    assert_eq!(json["breaker"]["fraction"]["value"], 0.5);
}

#[test]
fn a_secret_in_a_url_is_not_printed() {
    let (_directory, path) = file("[sessions]\non_end = 'https://x.example/hooks/secret'\n");
    let settings = load(&[], &[], Some(&path)).unwrap();
    let text = settings.to_text();
    assert!(text.contains("on_end = \"https://x.example/[hidden]\""), "{text}");
    assert!(!text.contains("hooks/secret") && !settings.to_json().to_string().contains("hooks/secret"));
    assert!(!told(&settings).contains("hooks/secret"));
    // What was printed does not go for the real thing.
    let (_other_directory, other) = file(&text);
    let error = load(&[], &[], Some(&other)).unwrap_err().to_string();
    assert!(error.ends_with("[hidden] stands for the path of the URL: write the path itself"), "{error}");
}

#[test]
fn an_unknown_key_is_an_error_that_names_the_nearest() {
    expect!["DIR/tenure.toml:3: there is no key limits.lease; the nearest is limits.leases"]
        .assert_eq(&refusal("\n[limits]\nlease = 5\n"));
    expect!["DIR/tenure.toml:1: there is no key port; the nearest is server.port"]
        .assert_eq(&refusal("port = 7000\n"));
    expect!["DIR/tenure.toml:2: there is no key breakers; the nearest is the section [breaker]"]
        .assert_eq(&refusal("# x\n[breakers]\nhold = \"1s\"\n"));
    expect!["DIR/tenure.toml:2: there is no key server.prot; the nearest is server.port"]
        .assert_eq(&refusal("[server]\nprot = 7000\n"));
    expect!["DIR/tenure.toml:1: there is no key server; the nearest is the section [server]"]
        .assert_eq(&refusal("server = 5\n"));
    expect!["DIR/tenure.toml:1: server.bind cannot be a table"].assert_eq(&refusal("server.bind.x = 5\n"));
}

#[test]
fn an_unknown_variable_is_one_only_if_it_names_a_section() {
    let error = load(&[], &[("TENURE_SERVER_PROT", "1")], None).unwrap_err().to_string();
    expect![
        "the environment sets TENURE_SERVER_PROT, but there is no such setting; the nearest is TENURE_SERVER_PORT"
    ]
    .assert_eq(&error);
    load(&[], &[("TENURE_ENDPOINT", "x"), ("TENURE_LEASE_ID", "x"), ("TENURE_RUN_DIR", "/x")], None).unwrap();
}

#[test]
fn a_bad_value_is_named_with_its_place() {
    expect![[r#"DIR/tenure.toml:2: server.port: "70000" is not accepted: expected a port, 0 to 65535"#]]
        .assert_eq(&refusal("[server]\nport = 70000\n"));
    expect![[r#"DIR/tenure.toml:2: breaker.window: "10" is not accepted: a duration needs a unit, as in 10s or 10ms"#]]
        .assert_eq(&refusal("[breaker]\nwindow = 10\n"));
    expect![[r#"DIR/tenure.toml:2: breaker.fraction: "1.5" is not accepted: expected 0.01 to 1.0"#]]
        .assert_eq(&refusal("[breaker]\nfraction = 1.5\n"));
    expect!["DIR/tenure.toml:2: server.allow_origin cannot be a list of values that are not text"]
        .assert_eq(&refusal("[server]\nallow_origin = [1]\n"));
    expect!["DIR/tenure.toml:2: server.port cannot be a number that is not decimal"]
        .assert_eq(&refusal("[server]\nport = 0x16\n"));
    assert!(refusal("[server\n").starts_with("DIR/tenure.toml:1: "));
    let error = load(&[], &[("TENURE_AUTH_LOCAL", "root")], None).unwrap_err().to_string();
    expect![[r#"TENURE_AUTH_LOCAL: "root" is not accepted: expected one of admin, hold, read, none"#]]
        .assert_eq(&error);
    let flag = Flags::from_arguments(&["--history-age=soon".to_owned()]).unwrap_err().to_string();
    assert!(flag.contains("--history-age <DURATION>"), "{flag}");
}

#[test]
fn settings_that_need_each_other_are_asked_for_together() {
    let error = |flags: &[&str]| load(flags, &[], None).unwrap_err().to_string();
    assert_eq!(error(&["--tls-cert=c"]), "server.tls_cert is set, but server.tls_key is not; set both");
    assert_eq!(error(&["--tls-key=k"]), "server.tls_key is set, but server.tls_cert is not; set both");
    assert_eq!(error(&["--client-ca=a"]), "server.client_ca is set, but server.tls_cert is not; set both");
    assert_eq!(
        error(&["--client-crl=l", "--tls-cert=c", "--tls-key=k"]),
        "server.client_crl is set, but server.client_ca is not; set both"
    );
    assert_eq!(
        error(&["--auth-cert-scope-file=l", "--tls-cert=c", "--tls-key=k"]),
        "auth.cert_scope_file is set, but server.client_ca is not; set both"
    );
}

#[test]
fn a_password_for_etcd_does_not_cross_the_network_in_the_clear() {
    let (directory, password) = file("s3cret\n");
    let options = |store: &str, more: &[&str]| {
        let password = format!("--etcd-password-file={}", password.display());
        let store = format!("--log={store}");
        let flags = [&[store.as_str(), "--etcd-user=tenure", &password], more].concat();
        let settings = load(&flags, &[], None).unwrap();
        let address = settings.cluster.store.0.clone().unwrap();
        settings.etcd_options(&address).map(drop).map_err(|words| words.line)
    };
    let refused =
        Err("--etcd-user without TLS would send the password over the network unencrypted".to_owned());
    assert_eq!(options("etcd://10.0.0.1:2379/t", &[]), refused);
    assert_eq!(options("etcd://127.0.0.1:2379,etcd.example:2379/t", &[]), refused);
    assert_eq!(options("etcd://127.0.0.1:2379,[::1]:2379/t", &[]), Ok(()));
    let ca = directory.path().join("ca.pem");
    fs::write(&ca, "").unwrap();
    assert_eq!(options("etcd://10.0.0.1:2379/t", &[&format!("--etcd-ca={}", ca.display())]), Ok(()));
}

#[test]
fn sessions_that_one_lost_heartbeat_would_end_are_refused() {
    let error = |flags: &[&str]| load(flags, &[], None).unwrap_err().to_string();
    expect!["sessions.heartbeat_interval is 5 s and sessions.lease_ttl is 9s999ms: the ttl must be at least two intervals, or one lost packet ends a session"]
        .assert_eq(&error(&["--sessions-lease-ttl=9999ms"]));
    expect!["sessions.heartbeat_interval is 31 s and sessions.lease_ttl is 1m: the ttl must be at least two intervals, or one lost packet ends a session"]
        .assert_eq(&error(&["--sessions-heartbeat-interval=31"]));
    load(&["--sessions-heartbeat-interval=30"], &[], None).unwrap();
    load(&["--sessions-lease-ttl=2s", "--sessions-heartbeat-interval=1"], &[], None).unwrap();
    assert!(load(&["--sessions-lease-ttl=1s", "--sessions-heartbeat-interval=1"], &[], None).is_err());
}

#[test]
fn settings_of_sessions_that_do_not_go_together_are_refused() {
    let error = |flags: &[&str]| load(flags, &[], None).unwrap_err().to_string();
    expect!["sessions.reuse is after_hook, but sessions.on_end sets no hook to wait for"]
        .assert_eq(&error(&["--sessions-reuse=after_hook"]));
    expect!["sessions.pools names 2 pools, but limits.pools allows 1"]
        .assert_eq(&error(&["--sessions-pools=a=1,b=2", "--limits-pools=1"]));
    expect![[r#"DIR/tenure.toml:2: sessions.pools: "mdns=1" is not accepted: names under mdns/ belong to registrations"#]]
        .assert_eq(&refusal("[sessions]\npools = { mdns = 1 }\n"));
    let secret = "--sessions-on-end-secret-file=/srv/secret";
    expect!["sessions.on_end_secret_file is set, but sessions.on_end is not a URL"]
        .assert_eq(&error(&[secret, "--sessions-on-end=notify"]));
    load(&[secret, "--sessions-on-end=http://x.example/"], &[], None).unwrap();
    expect!["sessions.on_end_ca is set, but sessions.on_end is not an https URL"]
        .assert_eq(&error(&["--sessions-on-end-ca=/srv/ca.pem", "--sessions-on-end=http://x.example/"]));
    expect![[r#"DIR/tenure.toml:2: sessions.on_end: "https://x.example/[hidden]" is not accepted: a name and password before the host are not sent; put a secret into the path"#]]
        .assert_eq(&refusal("[sessions]\non_end = 'https://me:secret@x.example/e'\n"));
    expect![[r#"DIR/tenure.toml:2: sessions.expiry_check_interval: "soon" is not accepted: expected a duration like 500ms, 30s, 1m30s or 2h"#]]
        .assert_eq(&refusal("[sessions]\nexpiry_check_interval = 'soon'\n"));
    expect![[r#"DIR/tenure.toml:2: sessions.heartbeat_interval: "0" is not accepted: expected 1 to 43200"#]]
        .assert_eq(&refusal("[sessions]\nheartbeat_interval = 0\n"));
}

#[test]
fn pools_are_given_in_every_form_and_may_be_none() {
    let pools = |settings: &Settings| at(settings, "sessions.pools");
    let both = "{ gpu = 2, tuner = 4 }".to_owned();
    for text in [
        "[sessions]\npools = { tuner = 4, gpu = 2 }\n",
        "[sessions]\npools.tuner = 4\npools.gpu = 2\n",
        "[sessions]\npools = 'tuner=4,gpu=2'\n",
        "[sessions]\n[sessions.pools]\ntuner = 4\ngpu = 2\n",
    ] {
        let (_directory, path) = file(text);
        let (shown, origin) = pools(&load(&[], &[], Some(&path)).unwrap());
        assert_eq!(shown, both, "{text}");
        assert!(matches!(origin, Origin::File { line: 2 | 3 }), "{origin:?} {text}");
    }
    let flags = ["--sessions-pools=tuner=4", "--sessions-pools=gpu=2"];
    let settings = load(&flags, &[("TENURE_SESSIONS_POOLS", "other=1")], None).unwrap();
    assert_eq!(pools(&settings), (both, Origin::Flag));
    let empty = |flags: &[&str], variables: &[(&str, &str)], text: &str| {
        let (_directory, path) = file(text);
        pools(&load(flags, variables, Some(&path)).unwrap())
    };
    assert_eq!(empty(&[], &[("TENURE_SESSIONS_POOLS", "")], ""), ("{}".to_owned(), Origin::Environment));
    assert_eq!(empty(&["--sessions-pools="], &[], ""), ("{}".to_owned(), Origin::Flag));
    assert_eq!(empty(&[], &[], "[sessions]\npools = {}\n"), ("{}".to_owned(), Origin::File { line: 2 }));
    assert_eq!(empty(&[], &[], ""), ("{ tuner = 4 }".to_owned(), Origin::Default));
    // Of everything else an empty variable says nothing.
    let settings = load(&[], &[("TENURE_SESSIONS_DEFAULT_POOL", "")], None).unwrap();
    assert_eq!(settings.sessions.default_pool.0, "tuner");
    expect!["DIR/tenure.toml:2: sessions.pools cannot be a table of values that are not numbers"]
        .assert_eq(&refusal("[sessions]\npools = { tuner = 'x' }\n"));
    expect!["DIR/tenure.toml:2: there is no key sessions.pool; the nearest is sessions.pools"]
        .assert_eq(&refusal("[sessions]\npool = { tuner = 4 }\n"));
}

#[test]
fn places_depend_on_who_runs_the_daemon() {
    let places = |variables: &[(&str, &str)], is_root| {
        Settings::load(&no_flags(), &Environment::of(variables, is_root)).map(|settings| {
            let shown =
                |path: &Option<PathBuf>| path.as_ref().map_or("-".into(), |path| path.display().to_string());
            let server = &settings.server;
            format!("{} {} {}", server.data_dir.display(), shown(&server.run_dir), shown(&server.socket))
        })
    };
    let ok = |variables: &[(&str, &str)], is_root| places(variables, is_root).unwrap();
    assert_eq!(ok(&[], true), "/var/lib/tenure /run/tenure /run/tenure/tenure.sock");
    assert_eq!(ok(&[("TENURE_RUN_DIR", "/t")], true), "/var/lib/tenure /t /t/tenure.sock");
    assert_eq!(
        ok(&[("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r")], false),
        "/s/tenure /r/tenure /r/tenure/tenure.sock"
    );
    assert_eq!(ok(&[("HOME", "/h")], false), "/h/.local/state/tenure - /h/.local/state/tenure/tenure.sock");
    assert_eq!(
        ok(&[("HOME", "/h"), ("TENURE_SERVER_RUN_DIR", "/x"), ("XDG_RUNTIME_DIR", "")], false),
        "/h/.local/state/tenure /x /x/tenure.sock"
    );
    assert_eq!(
        ok(&[("XDG_RUNTIME_DIR", "/r"), ("TENURE_SERVER_DATA_DIR", "/d")], false),
        "/d /r/tenure /r/tenure/tenure.sock"
    );
    let service = [("STATE_DIRECTORY", "/a/tenure:/b"), ("RUNTIME_DIRECTORY", "/c/tenure")];
    assert_eq!(ok(&service, false), "/a/tenure /c/tenure /c/tenure/tenure.sock");
    assert_eq!(
        places(&[], false).unwrap_err().to_string(),
        "server.data_dir has no default: neither HOME nor an XDG directory is set"
    );
}

#[test]
fn the_usual_file_may_be_missing_and_a_named_one_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().display().to_string();
    let here = Environment::of(&[("HOME", &home)], false);
    assert_eq!(Settings::load(&Flags::default(), &here).unwrap().server.port, 5641);
    fs::create_dir_all(directory.path().join(".config/tenure")).unwrap();
    fs::write(directory.path().join(".config/tenure/tenure.toml"), "[server]\nport = 1\n").unwrap();
    assert_eq!(Settings::load(&Flags::default(), &here).unwrap().server.port, 1);
    let other = directory.path().join("other.toml");
    let told = Environment::of(&[("HOME", &home), ("TENURE_CONFIG", &other.display().to_string())], false);
    assert!(matches!(Settings::load(&Flags::default(), &told), Err(ConfigError::Unreadable { .. })));
    fs::write(&other, "[server]\nport = 2\n").unwrap();
    assert_eq!(Settings::load(&Flags::default(), &told).unwrap().server.port, 2);
}

#[test]
fn flags_are_written_as_they_are_read() {
    let arguments: Vec<String> = [
        "--config=/c.toml",
        "--port=7000",
        "--allow-origin=https://a.example",
        "--allow-origin=https://b.example",
        "--insecure-no-auth=true",
        "--mdns=false",
        "--sessions-pools=gpu=2",
        "--sessions-pools=tuner=4",
        "--sessions-on-end=sh -c 'cat > /dev/null'",
    ]
    .map(str::to_owned)
    .to_vec();
    let flags = Flags::from_arguments(&arguments).unwrap();
    assert_eq!(flags.to_arguments(), arguments);
    let bare = Flags::from_arguments(&["--insecure-no-auth".to_owned(), "--port".to_owned(), "1".to_owned()])
        .unwrap();
    assert_eq!(bare.to_arguments(), ["--port=1", "--insecure-no-auth=true"]);
    assert_eq!(bare.or(flags).to_arguments()[1], "--port=1");
}

#[test]
fn former_names_are_accepted_by_every_way() {
    let store = "etcd://127.0.0.1:2379/tenure";
    let settings = load(&[&format!("--log={store}"), "--writer-ttl=5s"], &[], None).unwrap();
    assert_eq!(at(&settings, "cluster.store"), (format!("\"{store}\""), Origin::Flag));
    assert_eq!(at(&settings, "cluster.leader_ttl"), ("\"5s\"".to_owned(), Origin::Flag));
    let settings = load(&[], &[("TENURE_CLUSTER_WRITER_TTL", "6s")], None).unwrap();
    assert_eq!(at(&settings, "cluster.leader_ttl"), ("\"6s\"".to_owned(), Origin::Environment));
    let (_directory, path) = file("[cluster]\nwriter_ttl = '7s'\n");
    let settings = load(&[], &[], Some(&path)).unwrap();
    assert_eq!(at(&settings, "cluster.leader_ttl"), ("\"7s\"".to_owned(), Origin::File { line: 2 }));
    let twice = refusal("[cluster]\nleader_ttl = '5s'\nwriter_ttl = '7s'\n");
    assert!(twice.contains("cluster.leader_ttl is set twice"), "{twice}");
}
