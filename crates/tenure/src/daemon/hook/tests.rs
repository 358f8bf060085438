//! What is taken for a URL and what for a command, and what becomes of a word however it is received.

use super::*;
use expect_test::expect;
use serde_json::json;
use std::fs;
use std::path::Path;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Nothing here takes this long unless it is broken.
const LIMIT: Duration = Duration::from_secs(20);
/// Longer than what is tested, shorter than patience.
const SHORT: Duration = Duration::from_millis(300);

fn ended() -> SlotSession {
    let time = "2026-02-07T22:15:00.000Z";
    let session = json!({
        "session_id": "2d9a4c1e-0000-4000-8000-000000000001", "state": "stopped", "reason": "LEASE_EXPIRED",
        "lease_expires_at": time, "server_time": time, "created_at": time, "ended_at": time,
        "heartbeat_interval": 5, "lease_ttl": 60, "service_ref": "channel 7 \"news\"", "resources": ["tuner/1"],
        "fence": 7, "epoch": 2, "client": "alice", "lease_id": "x", "lsn": 9,
    });
    serde_json::from_value(session).unwrap()
}

fn plan(text: &str) -> HookPlan {
    HookPlan::of(text).unwrap()
}

fn refusal(text: &str) -> String {
    HookPlan::of(text).unwrap_err()
}

fn started(plan: HookPlan) -> Arc<Hook> {
    plan.start().unwrap().unwrap()
}

async fn tell(plan: HookPlan) -> Result<(), String> {
    let told = tokio::time::timeout(LIMIT, started(plan).tell(ended())).await;
    told.expect("it ends by itself")
}

fn hasty(plan: HookPlan) -> HookPlan {
    match plan {
        HookPlan::Nobody => HookPlan::Nobody,
        HookPlan::Webhook(webhook) => HookPlan::Webhook(webhook.within(SHORT)),
        HookPlan::Command(command) => HookPlan::Command(command.within(SHORT)),
    }
}

/// A command that runs a script in a directory.
fn script(directory: &Path, text: &str) -> HookPlan {
    let path = directory.join("told.sh");
    fs::write(&path, format!("cd '{}'\n{text}\n", directory.display())).unwrap();
    plan(&format!("sh '{}'", path.display()))
}

/// Answers one request with bytes, and gives back what was asked. With nothing to answer it only listens.
async fn one_answer(answer: Option<&'static str>) -> (HookPlan, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plan = plan(&format!("http://{}/ended?key=secret", listener.local_addr().unwrap()));
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        while !asked.ends_with(b"}") {
            let length = stream.read(&mut piece).await.unwrap();
            assert_ne!(length, 0, "the request broke off");
            asked.extend_from_slice(&piece[..length]);
        }
        match answer {
            Some(answer) => {
                // Whoever has heard enough may hang up.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
            None => while stream.read(&mut piece).await.is_ok_and(|length| length > 0) {},
        }
        String::from_utf8(asked).unwrap()
    });
    (plan, serving)
}

async fn refused_with(answer: &'static str) -> String {
    let (plan, _serving) = one_answer(Some(answer)).await;
    let HookPlan::Webhook(_) = &plan else { panic!("{plan:?}") };
    let error = tell(plan).await.unwrap_err();
    let (name, words) = error.split_once(' ').unwrap();
    assert!(name.starts_with("http://127.0.0.1:") && !error.contains("secret"), "{error}");
    words.to_owned()
}

#[test]
fn a_url_is_posted_to_and_anything_else_is_a_command() {
    assert_eq!(plan(""), HookPlan::Nobody);
    assert_eq!(plan("  "), HookPlan::Nobody);
    for url in ["http://127.0.0.1", "HTTP://host.example:8080/a/b?c=d", " https://[::1]:3000/ "] {
        assert!(matches!(plan(url), HookPlan::Webhook(_)), "{url}");
    }
    for line in ["/bin/true", "notify --to 'the team'", "curl -d @- https://x.example/y", "./a://b c"] {
        assert!(matches!(plan(line), HookPlan::Command(_)), "{line}");
    }
}

#[test]
fn what_cannot_be_told_is_refused_before_anything_starts() {
    expect!["expected a URL that begins with http:// or https://, or a command line"]
        .assert_eq(&refusal("ftp://x.example"));
    expect!["[hidden] stands for the path of the URL: write the path itself"]
        .assert_eq(&refusal("https://x.example/[hidden]"));
    for url in ["http://", "http:///path", "http://host:0/", "http://host:99999/", "http://a b/"] {
        assert_eq!(refusal(url), "expected a URL like http://127.0.0.1:3000/ended", "{url}");
    }
    expect!["a name and password before the host are not sent; put a secret into the path"]
        .assert_eq(&refusal("http://me:secret@host/"));
    expect!["a quote in the command line is not closed"].assert_eq(&refusal("notify 'me"));
    expect!["the command line names no program"].assert_eq(&refusal("''"));
    expect!["the command line names no program"].assert_eq(&refusal("# later"));
}

#[tokio::test]
async fn a_webhook_gets_the_whole_session() {
    let (plan, serving) = one_answer(Some("HTTP/1.1 204 No Content\r\n\r\n")).await;
    assert_eq!(tell(plan).await, Ok(()));
    let asked = serving.await.unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /ended?key=secret HTTP/1.1\r\n"), "{head}");
    for header in [
        "host: 127.0.0.1:",
        "content-type: application/json",
        "tenure-session-id: 2d9a4c1e-0000-4000-8000-000000000001",
        "tenure-event: session.ended",
    ] {
        assert!(head.lines().any(|line| line.to_ascii_lowercase().starts_with(header)), "{header}: {head}");
    }
    assert_eq!(serde_json::from_str::<SlotSession>(body).unwrap(), ended());
}

#[tokio::test]
async fn what_is_posted_is_signed_where_there_is_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    fs::write(&secret, "0123456789abcdef\n").unwrap();
    let (plan, serving) = one_answer(Some("HTTP/1.1 204 No Content\r\n\r\n")).await;
    assert_eq!(tell(plan.with_files(None, Some(secret.clone()))).await, Ok(()));
    let asked = serving.await.unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    let signature = head.lines().find_map(|line| line.strip_prefix("tenure-signature: ")).unwrap();
    let seconds = signature.strip_prefix("t=").unwrap().split_once(',').unwrap().0.parse().unwrap();
    let signed = signature::SecretFile::open(&secret).unwrap().sign(seconds, body.as_bytes());
    assert_eq!(Ok(signature.to_owned()), signed);
    let now = tenure_engine::host::read_clocks().wall_ms / 1_000;
    assert!(now.abs_diff(seconds) < LIMIT.as_secs(), "{signature}");

    // Never unsigned: it is tried again once the secret is back.
    let (plan, _serving) = one_answer(Some("HTTP/1.1 204 No Content\r\n\r\n")).await;
    let hook = started(plan.with_files(None, Some(secret.clone())));
    fs::remove_file(&secret).unwrap();
    let error = hook.tell(ended()).await.unwrap_err();
    assert!(error.starts_with("cannot read the secret from "), "{error}");
}

/// Answers one request over TLS, and gives back how it began.
async fn one_secure_answer() -> (String, String, tokio::task::JoinHandle<Option<String>>) {
    let signed = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/ended?key=secret", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.ok()?;
        let mut asked = Vec::new();
        while !asked.ends_with(b"}") {
            asked.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        String::from_utf8(asked).ok()
    });
    (url, signed.cert.pem(), serving)
}

#[tokio::test]
async fn https_is_posted_to_where_its_authority_is_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (url, pem, serving) = one_secure_answer().await;
    assert_eq!(tell(plan(&url).with_files(Some(file("ca.pem", &pem)), None)).await, Ok(()));
    let asked = serving.await.unwrap().unwrap();
    assert!(asked.starts_with("POST /ended?key=secret HTTP/1.1\r\n"), "{asked}");

    let (url, _, serving) = one_secure_answer().await;
    let error = tell(plan(&url).with_files(Some(file("old.pem", &pem)), None)).await.unwrap_err();
    let shown = url.trim_end_matches("/ended?key=secret");
    assert!(error.starts_with(&format!("cannot reach {shown}: invalid peer certificate")), "{error}");
    assert_eq!(serving.await.unwrap(), None, "nothing was sent");
}

#[test]
fn files_that_cannot_be_used_are_refused_before_anything_starts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let problem = |plan: HookPlan| {
        let problem = plan.start().err().unwrap();
        problem.replace(&path.display().to_string(), "FILE")
    };
    let https = || plan("https://x.example/y");
    expect!["cannot read FILE: No such file or directory (os error 2)"]
        .assert_eq(&problem(https().with_files(Some(path.clone()), None)));
    fs::write(&path, "nothing").unwrap();
    expect!["cannot use https://x.example:443: cannot read the PEM: no certificate in it"]
        .assert_eq(&problem(https().with_files(Some(path.clone()), None)));
    expect!["the secret in FILE is shorter than 16 characters; make one with: openssl rand -hex 32"]
        .assert_eq(&problem(plan("http://x.example/y").with_files(None, Some(path.clone()))));
}

#[test]
fn of_a_url_only_scheme_and_host_are_shown() {
    for (text, shown) in [
        ("", ""),
        ("http://host:3000", "http://host:3000"),
        ("http://host:3000/", "http://host:3000/"),
        (" https://host/secret ", "https://host/[hidden]"),
        ("https://host?key=secret", "https://host/[hidden]"),
        ("https://host#secret", "https://host/[hidden]"),
        ("https://me:secret@host", "https://host"),
        ("ftp://host/secret", "ftp://host/[hidden]"),
        ("notify 'the team'", "notify 'the team'"),
    ] {
        assert_eq!(HookPlan::without_secrets(text), shown, "{text}");
    }
}

#[tokio::test]
async fn only_a_status_of_success_acknowledges() {
    assert_eq!(tell(one_answer(Some("HTTP/1.1 299 Fine\r\n\r\nx")).await.0).await, Ok(()));
    expect!["answered 500 Internal Server Error: no disk left"]
        .assert_eq(&refused_with("HTTP/1.1 500 X\r\ncontent-length: 14\r\n\r\nno\tdisk\r\nleft\n").await);
    expect!["answered 404 Not Found"].assert_eq(&refused_with("HTTP/1.1 404 X\r\n\r\n").await);
    // Not followed.
    expect!["answered 302 Found"]
        .assert_eq(&refused_with("HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\n\r\n").await);
    expect!["answered 399 <unknown status code>"].assert_eq(&refused_with("HTTP/1.1 399 X\r\n\r\n").await);
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error_in_words() {
    expect!["did not answer: invalid HTTP version parsed"]
        .assert_eq(&refused_with("SSH-2.0-OpenSSH\r\n\r\n").await);
    expect!["did not answer: connection closed before message completed"]
        .assert_eq(&refused_with("HTTP/1.1 2").await);
    expect!["did not answer: connection closed before message completed"].assert_eq(&refused_with("").await);
    let words = refused_with("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx").await;
    assert!(words.starts_with("did not answer"), "{words}");
}

#[tokio::test]
async fn of_a_long_refusal_only_the_beginning_is_passed_on() {
    let body: &'static str =
        Box::leak(format!("HTTP/1.1 500 X\r\n\r\n{}", "long ".repeat(1 << 20)).into_boxed_str());
    let words = refused_with(body).await;
    assert!(words.starts_with("answered 500 Internal Server Error: long long"), "{words}");
    assert!(words.len() < 400, "{}", words.len());
}

#[tokio::test]
async fn whoever_does_not_answer_in_time_or_cannot_be_reached_is_told_later() {
    let (plan, _serving) = one_answer(None).await;
    let error = tell(hasty(plan)).await.unwrap_err();
    assert!(error.ends_with("did not answer within 300 ms"), "{error}");
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = tell(plan_of(gone)).await.unwrap_err();
    assert_eq!(error, format!("cannot reach http://{gone}: Connection refused (os error 111)"));
}

fn plan_of(address: std::net::SocketAddr) -> HookPlan {
    plan(&format!("http://{address}/"))
}

#[tokio::test]
async fn a_command_gets_the_session_on_its_standard_input_and_in_its_environment() {
    let directory = tempfile::tempdir().unwrap();
    let names = "$TENURE_EVENT $TENURE_SESSION_ID $TENURE_SESSION_STATE $TENURE_SESSION_REASON";
    let plan = script(directory.path(), &format!("cat > told.json\necho \"{names}\" > told.txt"));
    assert_eq!(tell(plan).await, Ok(()));
    let told = fs::read(directory.path().join("told.json")).unwrap();
    assert_eq!(serde_json::from_slice::<SlotSession>(&told).unwrap(), ended());
    let names = fs::read_to_string(directory.path().join("told.txt")).unwrap();
    assert_eq!(names, "session.ended 2d9a4c1e-0000-4000-8000-000000000001 stopped LEASE_EXPIRED\n");
}

#[tokio::test]
async fn a_command_gets_no_variable_of_the_daemon_that_it_does_not_need() {
    let directory = tempfile::tempdir().unwrap();
    // What the shell was given, before it adds its own.
    let plan = script(directory.path(), "tr '\\0' '\\n' < /proc/$$/environ > environment");
    assert_eq!(tell(plan).await, Ok(()));
    let given = fs::read_to_string(directory.path().join("environment")).unwrap();
    let names: Vec<&str> = given.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let told = ["TENURE_EVENT", "TENURE_SESSION_ID", "TENURE_SESSION_STATE", "TENURE_SESSION_REASON", "PATH"];
    assert!(told.iter().all(|name| names.contains(name)), "{names:?}");
    let usual = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "XDG_RUNTIME_DIR"];
    let others: Vec<&&str> = names
        .iter()
        .filter(|name| !told.contains(name) && !usual.contains(name) && !name.starts_with("LC_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "this process has others");
}

#[tokio::test]
async fn words_are_split_as_a_shell_does_and_no_shell_sees_them() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("count.sh"),
        format!("echo $# \"$2\" > '{}/n'", directory.path().display()),
    )
    .unwrap();
    let line = format!("sh '{}/count.sh' \"a  b\" '$HOME;' c\\ d *", directory.path().display());
    assert_eq!(tell(plan(&line)).await, Ok(()));
    assert_eq!(fs::read_to_string(directory.path().join("n")).unwrap(), "4 $HOME;\n");
}

#[tokio::test]
async fn a_command_acknowledges_by_its_exit_code_alone() {
    let directory = tempfile::tempdir().unwrap();
    let told = |text: &str| tell(script(directory.path(), text));
    // Reads nothing, and talks all the same.
    assert_eq!(told("echo out; echo err >&2; exit 0").await, Ok(()));
    expect!["sh ended with exit status: 3: the disk is full"]
        .assert_eq(&told("echo the disk >&2; echo is full >&2; exit 3").await.unwrap_err());
    expect!["sh ended with exit status: 1"].assert_eq(&told("exit 1").await.unwrap_err());
    expect!["sh ended with signal: 9 (SIGKILL)"].assert_eq(&told("kill -9 $$").await.unwrap_err());
    let error = told("head -c 1000000 /dev/zero >&2; echo last words >&2; exit 1").await.unwrap_err();
    assert!(error.ends_with("last words") && error.len() < 400, "{error}");
    expect!["cannot start /nowhere/tell: No such file or directory (os error 2)"]
        .assert_eq(&tell(plan("/nowhere/tell")).await.unwrap_err());
}

#[tokio::test]
async fn a_command_that_leaves_something_behind_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let plan = script(directory.path(), "sleep 1000 &\necho $! > pid\nexit 0");
    assert_eq!(tell(plan).await, Ok(()));
    let left = number_in(&directory.path().join("pid"));
    assert!(is_running(left));
    kill(left);
    let plan = script(directory.path(), "sleep 1000 &\necho $! > pid\necho oh >&2\nexit 1");
    assert_eq!(tell(plan).await, Err("sh ended with exit status: 1: oh".to_owned()));
    kill(number_in(&directory.path().join("pid")));
}

#[tokio::test]
async fn a_command_that_hangs_is_killed_with_all_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let plan = hasty(script(directory.path(), "sleep 1000 &\necho $! > pid\nwait"));
    expect!["sh was killed after 300 ms"].assert_eq(&tell(plan).await.unwrap_err());
    wait_until_gone(number_in(&directory.path().join("pid"))).await;
}

#[tokio::test]
async fn closing_kills_what_runs_and_tells_nobody_more() {
    let directory = tempfile::tempdir().unwrap();
    let hook = started(script(directory.path(), "sleep 1000 &\necho $! > pid.part\nmv pid.part pid\nwait"));
    let telling = tokio::spawn(hook.tell(ended()));
    let path = directory.path().join("pid");
    wait_until("the command to run", || path.exists()).await;
    tokio::time::timeout(LIMIT, hook.close()).await.unwrap();
    assert_eq!(telling.await.unwrap(), Err("the daemon stops".to_owned()));
    wait_until_gone(number_in(&path)).await;
    fs::remove_file(&path).unwrap();
    assert_eq!(hook.tell(ended()).await, Err("the daemon stops".to_owned()));
    assert!(!path.exists());
}

#[tokio::test]
async fn a_word_that_nobody_waits_for_any_more_leaves_no_command() {
    let directory = tempfile::tempdir().unwrap();
    let hook = started(script(directory.path(), "sleep 1000 &\necho $! > pid.part\nmv pid.part pid\nwait"));
    let telling = tokio::spawn(hook.tell(ended()));
    let path = directory.path().join("pid");
    wait_until("the command to run", || path.exists()).await;
    telling.abort();
    wait_until_gone(number_in(&path)).await;
}

#[tokio::test]
async fn a_reason_that_is_no_variable_is_told_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let plan = script(directory.path(), "cat > told.json\nprintenv TENURE_SESSION_REASON > reason");
    let odd = SlotSession { reason: Some("FAILED:a\0b\nc".to_owned()), ..ended() };
    assert_eq!(started(plan).tell(odd.clone()).await, Ok(()));
    let told = fs::read(directory.path().join("told.json")).unwrap();
    assert_eq!(serde_json::from_slice::<SlotSession>(&told).unwrap(), odd);
    assert_eq!(fs::read_to_string(directory.path().join("reason")).unwrap(), "FAILED:a\u{fffd}b\nc\n");
}

fn number_in(path: &Path) -> i32 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn kill(pid: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

async fn wait_until_gone(pid: i32) {
    wait_until("a process to be gone", || !is_running(pid)).await;
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("waited too long: {what}"));
}
