//! One question at a time to a daemon, beside what is measured, and a session that is kept by hand.

use crate::peers::wire::lines::Granted;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tenure_client::clock::BootInstant;
use tenure_client::{Client, Endpoint};

/// One connection that waits for each answer.
pub(crate) struct Control {
    stream: BufReader<UnixStream>,
}

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

impl Control {
    pub(crate) fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one line.
    pub(crate) fn say(&mut self, line: &Value) -> Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.stream.get_mut().write_all(&bytes)?;
        Ok(())
    }

    /// Waits for one line.
    pub(crate) fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the daemon closed the connection");
        serde_json::from_str(&line).with_context(|| format!("the daemon says {line:?}"))
    }

    pub(crate) fn ask(&mut self, line: &Value) -> Result<Value> {
        self.say(line)?;
        self.hear()
    }

    /// Waits until the other side closes.
    pub(crate) fn wait_for_end(&mut self) -> Result<()> {
        self.stream.get_ref().set_read_timeout(None)?;
        while !self.stream.fill_buf()?.is_empty() {
            let bytes = self.stream.buffer().len();
            self.stream.consume(bytes);
        }
        Ok(())
    }

    /// Whether a lease is held still.
    pub(super) fn is_active(&mut self, granted: &Granted) -> Result<bool> {
        let id = String::from_utf8_lossy(granted.id()).into_owned();
        let answer = self.ask(&json!({"inspect": {"lease_id": id}}))?;
        Ok(answer["lease"]["state"] == "active")
    }
}

/// Live leases.
pub(crate) fn leases(control: &mut Control) -> Result<u64> {
    let answer = control.ask(&json!({"status": {}}))?;
    answer["status"]["leases"]["total"].as_u64().with_context(|| format!("the daemon says {answer}"))
}

/// A session by hand without grace, kept by a thread.
pub(super) struct Session {
    id: String,
    ttl: Duration,
    stop: Sender<()>,
    /// Gives when the last heartbeat was answered.
    kept: JoinHandle<Result<BootInstant>>,
}

impl Session {
    pub(super) fn open(socket: &Path, ttl: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = Client::builder(Endpoint::Unix(socket.to_owned())).build()?;
        let open = tenure_api::OpenSession {
            holder: "bench".into(),
            ttl_ms: Some(ttl.as_millis() as u64),
            grace_ms: Some(0),
            operation_id: None,
            accepts_handover: None,
        };
        let id = runtime.block_on(client.open_session(&open))?.session;
        let (stop, stopped) = channel();
        let (session, heartbeat) = (id.clone(), tenure_api::SessionHeartbeat::default());
        let kept = std::thread::spawn(move || {
            loop {
                let word = stopped.recv_timeout(ttl / 3);
                runtime.block_on(client.session_heartbeat(&session, &heartbeat))?;
                match word {
                    Err(RecvTimeoutError::Timeout) => {}
                    // Told to stop, or nobody is there any more.
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(BootInstant::now()),
                }
            }
        });
        Ok(Self { id, ttl, stop, kept })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// One more heartbeat, and no other; says when it was answered.
    pub(super) fn fall_silent(self) -> Result<BootInstant> {
        let _ = self.stop.send(());
        self.kept.join().map_err(|_| anyhow::anyhow!("the session's thread panicked"))?
    }
}
