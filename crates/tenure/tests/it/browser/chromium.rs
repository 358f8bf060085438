//! The processes: chromedriver and the Chromium that it starts, alone in a process namespace. When its first process
//! dies the kernel ends all others, whatever group or session they have moved to; and that one dies with the test.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::error::{WebDriverErrorInner, WebDriverResult};
use thirtyfour::session::http::{Body, HttpClient};
use thirtyfour::{Capabilities, WebDriver};
use tokio::runtime::Runtime;

use crate::raw_http::Http;
use crate::run_support::{signal, wait_until};

/// Nothing a browser does takes this long unless it is broken.
const LIMIT: Duration = Duration::from_secs(60);

/// How often a driver is started before something else must be wrong.
const STARTS: u32 = 5;

/// The profile's directory stands for DIR.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-features=Translate,OptimizationHints,MediaRouter",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--window-size=1280,900",
    "--user-data-dir=DIR/profile",
    // Nothing is looked up, so that nothing can be reached beyond this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*.*.*, EXCLUDE localhost",
];

/// A driver with nothing open yet. Dropping it ends the browser too.
pub(super) struct Chromium {
    launcher: Child,
    port: u16,
    /// Profile and whatever the two leave behind. Removed after they have ended.
    directory: TempDir,
}

impl Chromium {
    /// The driver takes a free port on IPv4 and then wants the same number on IPv6, where another process may have
    /// it; it says so and ends. That tells nothing about what is tested, so another one is started.
    #[track_caller]
    pub(super) fn start() -> Self {
        assert!(
            geteuid().is_root(),
            "a process namespace of the test's own needs root: run the tests as root"
        );
        let mut said = Vec::new();
        for _ in 0..STARTS {
            match Self::launch() {
                Ok(browser) => return browser,
                Err(words) => said.push(words),
            }
        }
        panic!("chromedriver ended {STARTS} times without listening: {said:#?}");
    }

    /// Starts a driver and reads where it listens; what it said instead if it ends.
    fn launch() -> Result<Self, String> {
        let directory = TempDir::new().unwrap();
        let words = directory.path().join("stderr");
        let mut launcher = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--pid", "--mount-proc", "--fork", "--kill-child=KILL"])
            .args(["chromedriver", "--port=0"])
            .env("HOME", directory.path())
            .env("TMPDIR", directory.path())
            .env("XDG_CONFIG_HOME", directory.path())
            .env("XDG_CACHE_HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&words).unwrap())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(launcher.stdout.take().unwrap());
        let mut browser = Self { launcher, port: 0, directory };
        let port = |line: &str| line.rsplit_once("on port ")?.1.strip_suffix('.')?.parse().ok();
        let mut said = String::new();
        for line in stdout.lines().map_while(Result::ok) {
            if let Some(port) = port(&line) {
                browser.port = port;
                return Ok(browser);
            }
            said.extend([line.as_str(), "\n"]);
        }
        said.push_str(&fs::read_to_string(&words).unwrap());
        Err(said)
    }

    /// Opens the browser. Of the words that are given those with dashes are flags; the others name flags that the
    /// driver would give by itself and is not to.
    #[track_caller]
    pub(super) fn open(&self, runtime: &Runtime, words: &[&str]) -> WebDriver {
        let shown = self.directory.path().to_str().unwrap();
        let (more_flags, left_out): (Vec<&str>, Vec<&str>) =
            words.iter().partition(|word| word.starts_with('-'));
        let flags: Vec<String> =
            FLAGS.iter().chain(&more_flags).map(|flag| flag.replace("DIR", shown)).collect();
        let capabilities = json!({
            "goog:chromeOptions": {"args": flags, "excludeSwitches": left_out},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": LIMIT.as_millis() as u64, "pageLoad": LIMIT.as_millis() as u64},
        });
        let Value::Object(capabilities) = capabilities else { unreachable!("it is written above") };
        let driver =
            WebDriver::builder(format!("http://127.0.0.1:{}", self.port), Capabilities::from(capabilities))
                .client(Loopback { port: self.port })
                .connect();
        runtime.block_on(driver).unwrap()
    }

    /// The first process of the namespace.
    fn first(&self) -> Option<i32> {
        let launcher = self.launcher.id();
        let children = fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        match self.first() {
            // It can be waited for only after all others have ended, and what starts it ends with it.
            Some(first) => signal(first, Signal::KILL),
            None => drop(self.launcher.kill()),
        }
        wait_until("the end of the browser", LIMIT, || !matches!(self.launcher.try_wait(), Ok(None)));
    }
}

/// HTTP to the driver: it is on loopback and answers one thing at a time.
struct Loopback {
    port: u16,
}

type Sent<'a> = Pin<Box<dyn Future<Output = WebDriverResult<Response<Bytes>>> + Send + 'a>>;
type Another<'a> = Pin<Box<dyn Future<Output = Arc<dyn HttpClient>> + Send + 'a>>;

impl Loopback {
    fn ask(&self, request: Request<Body<'_>>) -> std::io::Result<Response<Bytes>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut http = Http::new(stream, &format!("127.0.0.1:{}", self.port))
            .with("content-type", "application/json")
            .with("connection", "close");
        let body = match request.body() {
            Body::Empty => Vec::new(),
            Body::Json(value) => value.to_string().into_bytes(),
        };
        let answered = http.try_ask(request.method().as_str(), request.uri().path(), &body)?;
        let response = Response::builder().status(answered.status).body(Bytes::from(answered.body));
        response.map_err(std::io::Error::other)
    }
}

impl HttpClient for Loopback {
    fn send<'this, 'body, 'sent>(&'this self, request: Request<Body<'body>>) -> Sent<'sent>
    where
        'this: 'sent,
        'body: 'sent,
        Self: 'sent,
    {
        let failed = |error: std::io::Error| WebDriverErrorInner::RequestFailed(error.to_string()).into();
        Box::pin(async move { self.ask(request).map_err(failed) })
    }

    fn new<'this, 'sent>(&'this self) -> Another<'sent>
    where
        'this: 'sent,
        Self: 'sent,
    {
        Box::pin(async { Arc::new(Self { port: self.port }) as Arc<dyn HttpClient> })
    }
}

/// Where the build puts what it makes; pictures of pages go there.
pub(super) fn target_directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("invariant: it is in the target directory")
}
