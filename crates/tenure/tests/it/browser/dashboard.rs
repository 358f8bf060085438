//! The dashboard, as a person meets it: found by role and name, clicked with the mouse, typed at the keyboard. What it
//! shows is compared with what the daemon says.

use serde_json::{Value, json};

use super::tab::Tab;
use crate::daemon::{Daemon, LIMIT};
use crate::run_support::wait_until;

mod cluster;
mod events;
mod hostile;
mod leases;
mod many;
mod overview;
mod polling;
mod portraits;
mod reading;
mod registrations;
mod signing_in;
mod slots;
mod surviving;
mod waiting;
mod why;

/// A daemon and its page.
struct Board {
    tab: Tab,
    daemon: Daemon,
}

impl Board {
    /// With no pool and nothing held.
    #[track_caller]
    fn begin() -> Self {
        let mut daemon = Daemon::prepared(&[]).with_variable("TENURE_SESSIONS_POOLS", "");
        daemon.start_again();
        Self::on(daemon)
    }

    /// With four slots, and sessions whose heartbeats are due every second and last as long as is said.
    #[track_caller]
    fn with_sessions(ttl: &str) -> Self {
        let mut daemon = Daemon::prepared(&[])
            .with_variable("TENURE_SESSIONS_LEASE_TTL", ttl)
            .with_variable("TENURE_SESSIONS_HEARTBEAT_INTERVAL", "1")
            .with_variable("TENURE_SESSIONS_POOLS", "tuner=4");
        daemon.start_again();
        Self::on(daemon)
    }

    #[track_caller]
    fn on(daemon: Daemon) -> Self {
        Self { tab: Tab::open(), daemon }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.daemon.address())
    }

    /// Goes to a page, such as `leases`, and waits until it is live.
    #[track_caller]
    fn visit(&self, page: &str) {
        self.tab.goto(self.url(&format!("/#/{page}")));
        self.wait_until_live();
    }

    #[track_caller]
    fn wait_until_live(&self) {
        self.tab.wait_until("document.documentElement.dataset.feed === 'live'");
    }

    /// Takes resources over HTTP, for a minute unless told; gives the lease's id.
    #[track_caller]
    fn acquire(&self, resource: &str, holder: &str, more: Value) -> String {
        let mut body = json!({"resources": [resource], "holder": holder, "ttl_ms": 60_000});
        for (key, value) in more.as_object().into_iter().flatten() {
            body[key] = value.clone();
        }
        self.daemon.acquire(&body)["lease_id"].as_str().unwrap().to_owned()
    }

    /// A lease as the daemon has it.
    #[track_caller]
    fn lease(&self, id: &str) -> Value {
        self.daemon.get(&format!("/v1/leases/{id}")).json()
    }

    #[track_caller]
    fn wait_for_lease(&self, id: &str, what: &str, condition: impl Fn(&Value) -> bool) {
        wait_until(&format!("{id}: {what}"), LIMIT, || condition(&self.lease(id)));
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answered = self.daemon.post(path, body);
        assert!(answered.status < 300, "{path}: {answered:?}");
        answered.json()
    }

    #[track_caller]
    fn set_pool(&self, name: &str, size: u64) {
        let answered = self.daemon.http().put(&format!("/v1/pools/{name}"), &json!({"size": size}));
        assert_eq!(answered.status, 200, "{answered:?}");
    }

    /// The rows of the live table, from the top: resource, holder, standing.
    fn rows(&self) -> Value {
        self.tab.run(
            "const cells = ['.c-resources .name', '.c-holder', '.standing'];
             return [...document.querySelectorAll('.lease-row[data-lease-id]')]
               .filter((row) => !row.hidden)
               .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
               .map((row) => cells.map((cell) => row.querySelector(cell).textContent));",
        )
    }

    /// Waits until the row of a lease shows a standing.
    #[track_caller]
    fn wait_for_row(&self, id: &str, standing: &str) {
        let selector = format!(".lease-row:not([hidden])[data-lease-id='{id}'][data-standing='{standing}']");
        self.tab.wait_until_with("document.querySelector(given[0]) !== null", &[json!(selector)]);
    }

    #[track_caller]
    fn wait_for_no_row(&self, id: &str) {
        let selector = format!(".lease-row:not([hidden])[data-lease-id='{id}']");
        self.tab.wait_until_with("document.querySelector(given[0]) === null", &[json!(selector)]);
    }

    /// What the open dialog says.
    #[track_caller]
    fn dialog(&self) -> String {
        self.tab.wait_until("document.querySelector('dialog[open]')?.innerText").as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn wait_for_no_dialog(&self) {
        self.tab.wait_until("document.querySelector('dialog[open]') === null");
    }

    /// Presses a button of the open dialog.
    #[track_caller]
    fn answer_dialog(&self, action: &str) {
        self.tab.click_on(&format!("dialog[open] [data-action='{action}']"));
    }
}
