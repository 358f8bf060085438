//! `/assets/tenure-session.js`, as a page uses it: on the real daemon, through a proxy that loses, delays and answers
//! in the daemon's place.

use serde_json::{Value, json};

use super::proxy::Proxy;
use super::tab::Tab;
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::wait_until;

mod beating;
mod ending;
mod origins;
mod queueing;
mod sleeping;
mod starting;

/// Imports the module and writes down what each session tells.
const PRELUDE: &str = "
    const { TenureSession, TenureError } = await import('/assets/tenure-session.js');
    window.TenureSession = TenureSession;
    window.TenureError = TenureError;
    window.told = [];
    window.begin = async (options) => {
      const session = await TenureSession.start(options);
      for (const word of ['renewed', 'expiring', 'lost', 'expired', 'state']) {
        session.on(word, ({ valid_ms, state, reason, final, error }) =>
          told.push({ word, valid_ms, state, reason, final, code: error?.code ?? null, at: performance.now() }));
      }
      return session;
    };
    window.words = () => told.map(({ word }) => word).filter((word) => word !== 'renewed');
    window.seen = (word) => told.filter((entry) => entry.word === word).length;
";

/// A daemon, a proxy before it, and a page that came through the proxy and has the module.
struct Stage {
    tab: Tab,
    proxy: Proxy,
    daemon: Daemon,
}

impl Stage {
    /// Two slots; a heartbeat lasts six seconds and is due every second.
    #[track_caller]
    fn begin() -> Self {
        Self::with_ttl("6s", &[])
    }

    #[track_caller]
    fn with_ttl(ttl: &str, browser_flags: &[&str]) -> Self {
        Self::of(prepared(&[], ttl), browser_flags)
    }

    /// With a daemon that does not run yet.
    #[track_caller]
    fn of(mut daemon: Daemon, browser_flags: &[&str]) -> Self {
        daemon.start_again();
        let proxy = Proxy::before(daemon.address());
        let stage = Self { tab: Tab::open_with(browser_flags), proxy, daemon };
        stage.visit();
        stage
    }

    /// Opens the page and its module.
    #[track_caller]
    fn visit(&self) {
        self.tab.goto(self.proxy.url("/healthz"));
        self.tab.run(PRELUDE);
    }

    /// Starts a session in the page, as `s`; gives its id.
    #[track_caller]
    fn start(&self, options: Value) -> String {
        let id = self.tab.run_with("window.s = await begin(given[0]); return s.id", &[options]);
        id.as_str().unwrap().to_owned()
    }

    /// A session as the daemon shows it.
    #[track_caller]
    fn shown(&self, id: &str) -> Value {
        self.daemon.get(&format!("/api/v3/sessions/{id}")).json()
    }

    /// State and reason of a session.
    #[track_caller]
    fn state(&self, id: &str) -> (String, String) {
        let shown = self.shown(id);
        let word = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
        (word("state"), word("reason"))
    }

    #[track_caller]
    fn wait_for_state(&self, id: &str, state: &str, reason: &str) {
        wait_until(&format!("{id} to be {state} {reason}"), LIMIT, || {
            self.state(id) == (state.to_owned(), reason.to_owned())
        });
    }

    /// Slots that are taken.
    #[track_caller]
    fn in_use(&self) -> u64 {
        in_use(&self.daemon)
    }
}

/// A daemon with two slots whose heartbeats are due every second.
fn prepared(flags: &[&str], ttl: &str) -> Daemon {
    Daemon::prepared(flags)
        .with_variable("TENURE_SESSIONS_LEASE_TTL", ttl)
        .with_variable("TENURE_SESSIONS_HEARTBEAT_INTERVAL", "1")
        .with_variable("TENURE_SESSIONS_POOLS", "tuner=2")
}

/// Slots of the one pool that are taken.
#[track_caller]
fn in_use(daemon: &Daemon) -> u64 {
    let pool = daemon.get("/v1/pools").json()["pools"][0].clone();
    pool["size"].as_u64().unwrap() - pool["free"].as_u64().unwrap()
}

/// What everything but `renewed` was told, in order.
fn words(stage: &Stage) -> Value {
    stage.tab.run("return words()")
}

fn tuner() -> Value {
    json!({"pool": "tuner"})
}
