//! The handle others hold: calls become commands for the thread that runs the machine (`host.rs`), which
//! needs no runtime of the caller's.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};

use crate::board::{Board, Goodbye, Health, Standing, unpoisoned};
use crate::host::{Command, Host};
use crate::interface::Options;
use crate::service::Service;
use crate::shelf::{Browse, Shelves};
use crate::sighting::Wanted;

/// mDNS on this machine. Cheap to clone; every method may be called from any thread or task. When the last
/// clone and the last [`Browse`] are dropped the thread ends by itself, with one unconfirmed goodbye each.
#[derive(Clone)]
pub struct Mdns {
    shared: Arc<Shared>,
}

/// Why mDNS cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port or the system's means of waiting for it.
    #[error("cannot start the mdns engine: {0}")]
    Engine(String),
    /// No thread.
    #[error("cannot start the mdns thread")]
    Thread(#[source] std::io::Error),
}

/// What the handles, the browses and the supervisor have in common.
pub(crate) struct Shared {
    /// Unbounded, because the supervisor takes commands at once into tables with one entry per key.
    commands: mpsc::UnboundedSender<Command>,
    pub(crate) board: Arc<Board>,
    pub(crate) shelves: Arc<Shelves>,
    renames: Mutex<Option<mpsc::UnboundedReceiver<Renamed>>>,
}

/// A service has another name on the network than it was advertised under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Of which key.
    pub key: u128,
    /// Its name from now on.
    pub name: String,
}

impl Shared {
    /// Listeners came or went.
    pub(crate) fn tell_listeners_changed(&self, wanted: &Wanted) {
        let is_told = self.tell(Command::Listeners(wanted.clone()));
        if !is_told && let Some(shelf) = self.shelves.get(wanted) {
            shelf.close();
        }
    }

    /// Whether the supervisor is there to hear it.
    fn tell(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }
}

impl Mdns {
    /// Starts the engine and its supervisor.
    ///
    /// # Errors
    /// When the port cannot be had or no thread started. A chosen interface that does not exist is no error: it
    /// is used once it comes.
    pub fn start(options: Options) -> Result<Self, StartError> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let board = Arc::new(Board::new());
        let shelves = Arc::new(Shelves::default());
        let (renamed, renames) = mpsc::unbounded_channel();
        Host::start(options, receiver, board.clone(), shelves.clone(), renamed)?;
        let shared = Shared { commands, board, shelves, renames: Mutex::new(Some(renames)) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Advertises a service, or updates in place what this key stands for. Returns at once; how it went is in
    /// [`Mdns::standing`]. An update of port, TXT or address never withdraws anything; the same key with another
    /// name says goodbye for the old one, then announces the new one. A name that another key has waits until it
    /// is free.
    pub fn advertise(&self, key: u128, service: Service) {
        self.shared.tell(Command::Advertise { key, service });
    }

    /// Says goodbye. Resolves when the goodbye and its repeat have left, or says why none left. `service` is given
    /// because the key may be unknown here: what an earlier process announced is withdrawn too. The withdrawal
    /// goes on if the future is dropped. A service that is being probed for is withdrawn when that ends (within a
    /// second), because only then is it known that the name is ours.
    pub fn withdraw(
        &self,
        key: u128,
        service: Service,
    ) -> impl Future<Output = Goodbye> + Send + 'static + use<> {
        let (reply, answer) = oneshot::channel();
        self.shared.tell(Command::Withdraw { key, service, reply });
        async { answer.await.unwrap_or_else(|_| Goodbye::Unsent("mdns is closed".to_owned())) }
    }

    /// How the service of this key stands.
    #[must_use]
    pub fn standing(&self, key: u128) -> Standing {
        self.shared.board.standing(key)
    }

    /// Names that services got on the network because another host had theirs, as that is noticed; for the first who
    /// asks. Told again when a name changes again, also back to the one asked for.
    #[must_use]
    pub fn take_renames(&self) -> Option<mpsc::UnboundedReceiver<Renamed>> {
        unpoisoned(&self.shared.renames).take()
    }

    /// Asks the network at once, where others have browsed for so long that it is asked rarely.
    pub fn ask(&self, wanted: &Wanted) {
        self.shared.tell(Command::AskFor(wanted.clone()));
    }

    /// Looks for services. All who look for the same share one query on the network; who comes late is told what
    /// is known first.
    #[must_use]
    pub fn browse(&self, wanted: Wanted) -> Browse {
        let browse = self.shared.shelves.listen(&wanted, self.shared.clone());
        self.shared.tell_listeners_changed(&wanted);
        browse
    }

    /// How the engine is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.board.health()
    }

    /// Withdraws all that is advertised, confirmed, one failure never stopping the rest; then ends the thread.
    /// Resolves with how each key went. All browses end.
    pub async fn close(&self) -> Vec<(u128, Goodbye)> {
        let (reply, answer) = oneshot::channel();
        self.shared.tell(Command::Close { says_goodbye: true, reply });
        answer.await.unwrap_or_default()
    }

    /// Ends the thread without a goodbye for what is advertised: the next process goes on with it. Withdrawals that are
    /// under way are waited for. All browses end.
    pub async fn leave(&self) {
        let (reply, answer) = oneshot::channel();
        self.shared.tell(Command::Close { says_goodbye: false, reply });
        let _ = answer.await;
    }

    /// Makes the machine panic.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        self.shared.tell(Command::Break);
    }

    /// Makes the engine find that the machine slept for this time.
    #[cfg(test)]
    pub(crate) fn sleep(&self, time: core::time::Duration) {
        self.shared.tell(Command::Sleep(time));
    }
}
