//! One poller in a process of its own, as a program that uses the library would be: what it polls takes a moment and
//! is told to the witness. Ends in order on SIGTERM.

use super::record::{Introduction, Kind, Record};
use super::server::StoreKind;
use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_client::{Client, Endpoint};
use tenure_polling::source::FixedSource;
use tenure_polling::store::{RedisOptions, RedisStore, Store, TargetName, TenureStore};
use tenure_polling::{Poll, Poller};
use tokio::signal::unix::{SignalKind, signal};

/// What a poller is told by the one who starts it.
#[derive(clap::Args, Clone)]
pub(crate) struct Orders {
    #[arg(long)]
    pub(super) store: StoreKind,
    /// Socket of the store
    #[arg(long)]
    pub(super) at: PathBuf,
    #[arg(long)]
    pub(super) group: String,
    #[arg(long)]
    pub(super) targets: usize,
    #[arg(long)]
    pub(super) ttl_ms: u64,
    #[arg(long)]
    pub(super) every_ms: u64,
    /// How long a poll takes
    #[arg(long)]
    pub(super) poll_ms: u64,
    /// How many polls run at once
    #[arg(long)]
    pub(super) concurrency: usize,
    /// Socket of the witness
    #[arg(long)]
    pub(super) witness: PathBuf,
    /// Where to log everything
    #[arg(long)]
    pub(super) log: Option<PathBuf>,
}

/// How targets are called.
pub(super) fn target_name(number: usize) -> String {
    format!("s{number}")
}

fn target_number(name: &str) -> Option<u32> {
    name.strip_prefix('s')?.parse().ok()
}

pub(crate) fn run(orders: Orders) -> Result<()> {
    // Whoever measures may be killed; nobody else would end this.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if let Some(log) = &orders.log {
        let file = std::fs::File::options().create(true).append(true).open(log)?;
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_env_filter("tenure_polling=debug,tenure_client=debug")
            .with_writer(std::sync::Mutex::new(file))
            .init();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match orders.store {
            StoreKind::Tenure => {
                let client = Client::builder(Endpoint::Unix(orders.at.clone())).build()?;
                poll_with(TenureStore::new(client, &orders.group)?, &orders).await
            }
            StoreKind::Redis => {
                let mut options = RedisOptions::new(format!("unix://{}", orders.at.display()));
                options.group = orders.group.clone();
                poll_with(RedisStore::open(&options)?, &orders).await
            }
        }
    })
}

async fn poll_with<S: Store>(store: S, orders: &Orders) -> Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let poller = Poller::builder(store)
        .targets(FixedSource::new((0..orders.targets).map(target_name)))
        .ttl(Duration::from_millis(orders.ttl_ms))
        .every(Duration::from_millis(orders.every_ms))
        .concurrency(orders.concurrency)
        .build()?;
    let handle = poller.handle();
    let mut witness = UnixStream::connect(&orders.witness).context("no witness")?;
    let instance = handle.instance().to_string();
    Introduction { pid: std::process::id(), began: BootInstant::now(), instance }.write(&mut witness)?;
    let (pen, writing) = Pen::new(witness);
    tokio::spawn(async move {
        stop.recv().await;
        handle.stop();
    });
    let takes = Duration::from_millis(orders.poll_ms);
    let words = pen.clone();
    let ended = poller
        .run(move |target: TargetName, poll: Poll| {
            let pen = words.clone();
            async move {
                let _running = pen.begin(&target, &poll);
                tokio::select! {
                    () = tokio::time::sleep(takes) => {}
                    () = poll.cancelled() => {}
                }
            }
        })
        .await;
    pen.finish();
    // A thread that only writes does not panic, and a witness that is gone needs no words.
    let _ = writing.join();
    ended.context("the poller ended")
}

enum Word {
    Record(Record),
    Finish,
}

/// Tells the witness, from a thread of its own: no poll waits for it.
#[derive(Clone)]
struct Pen(Sender<Word>);

/// A poll that runs; ends when it is dropped, also when nobody lets it finish.
struct Running {
    pen: Pen,
    poll: Poll,
    target: u32,
}

impl Pen {
    fn new(witness: UnixStream) -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, words) = channel();
        (Self(sender), thread::spawn(move || write(witness, &words)))
    }

    fn begin(self, target: &TargetName, poll: &Poll) -> Option<Running> {
        let running = Running { pen: self, poll: poll.clone(), target: target_number(target)? };
        running.tell(Kind::Begin);
        Some(running)
    }

    fn finish(&self) {
        let _ = self.0.send(Word::Finish);
    }
}

impl Running {
    fn tell(&self, kind: Kind) {
        let record = Record {
            kind,
            target: self.target,
            fence: self.poll.fence(),
            at: BootInstant::now(),
            valid_until: self.poll.valid_until(),
        };
        let _ = self.pen.0.send(Word::Record(record));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell(Kind::End);
    }
}

/// Writes what there is together, until it is told to finish or nobody reads.
fn write(mut witness: UnixStream, words: &Receiver<Word>) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Ok(first) = words.recv() {
        let mut is_over = false;
        for word in std::iter::once(first).chain(words.try_iter()) {
            match word {
                Word::Record(record) => record.add_to(&mut bytes),
                Word::Finish => is_over = true,
            }
        }
        witness.write_all(&bytes)?;
        bytes.clear();
        if is_over {
            break;
        }
    }
    Ok(())
}
