//! `tenure stdio`: lines of JSON between standard input, standard output and the daemon's socket.
//!
//! Bytes are passed on as they are. Lines are looked at only to know which answers are still owed when the input ends:
//! the end of the connection is the end of the session, so it is closed after the last of them, or when the grace is over.

mod owed;

use std::future::pending;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

use crate::connect::Daemon;
use crate::duration::Span;
use crate::failure::{Failure, Words};
use crate::printer::{Printer, counted};
use owed::{Lines, Owed};

/// Use the line protocol (JSON lines) over standard input and output
///
/// Each line is one object with one verb, as on the daemon's socket. Leases that are acquired here belong to the
/// connection: they drain when the input ends. `tenure` without a command does the same if its standard input is not a
/// terminal.
///
/// After the end of the input the command waits at most --grace for outstanding answers, then closes the connection.
/// Streams (watch, browse, subscribe) end with the input; if the input only browses or subscribes and holds nothing, they
/// continue for --grace.
///
/// Exit code: 0 if every answer was printed, 1 if --grace ended before, 3 if the daemon closed the connection.
#[derive(Args)]
#[command(after_help = "Example:\n  echo '{\"browse\":\"_http._tcp\"}' | tenure stdio --grace 3s")]
pub(crate) struct Stdio {
    /// Wait this long for answers after the end of the input
    #[arg(long, value_name = "DURATION", default_value = GRACE)]
    grace: Span,
}

impl Default for Stdio {
    fn default() -> Self {
        Self { grace: GRACE.parse().expect("invariant: the default is a duration") }
    }
}

/// What the daemon forgives a standard input that is gone.
const GRACE: &str = "5s";

const HELLO: &[u8] = b"{\"hello\":{\"kind\":\"cli\"}}\n";
/// A question whose answer comes after that of every line before it.
const LAST_QUESTION: &[u8] = b"{\"status\":{}}\n";
/// Says that the input has ended: what was held through it is not used any more. A proxy that is killed does not say so.
const BYE: &[u8] = b"{\"bye\":{}}\n";
/// How long the daemon may take to take it.
const BYE_WITHIN: Duration = Duration::from_secs(1);
const PIECE_BYTES: usize = 64 << 10;
/// A longer line is not understood by any daemon, so it need not be understood here.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What is going on between the two sides.
struct Proxy<'a> {
    printer: &'a mut Printer,
    to_daemon: OwnedWriteHalf,
    from_daemon: OwnedReadHalf,
    /// What the daemon has not taken yet.
    outgoing: Vec<u8>,
    asked: Lines,
    answered: Lines,
    owed: Owed,
    /// The answer to our own hello is not passed on.
    welcomed: bool,
}

impl Stdio {
    pub(crate) async fn run(self, daemon: &Daemon, printer: &mut Printer) -> Result<(), Failure> {
        let socket = daemon.socket().ok_or_else(|| {
            let words =
                Words::new(format_args!("tenure stdio requires a Unix socket, got {}", daemon.endpoint()));
            Failure::Usage(words.hint("use --endpoint unix:/PATH; tenure status shows the path"))
        })?;
        let stream = UnixStream::connect(&socket).await.map_err(|error| unreachable(&socket, &error))?;
        let (from_daemon, to_daemon) = stream.into_split();
        let proxy = Proxy {
            printer,
            to_daemon,
            from_daemon,
            outgoing: HELLO.to_vec(),
            asked: Lines::up_to(LINE_BYTES_MAX),
            answered: Lines::up_to(usize::MAX),
            owed: Owed::default(),
            welcomed: false,
        };
        proxy.run(&socket, self.grace).await
    }
}

impl Proxy<'_> {
    async fn run(mut self, socket: &Path, grace: Span) -> Result<(), Failure> {
        let mut input = tokio::io::stdin();
        let (mut asked, mut answered) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut input_open = true;
        let mut grace_over: Pin<Box<dyn Future<Output = ()>>> = Box::pin(pending());
        while input_open || !self.is_done() {
            // Answers are taken while questions leave: a daemon that could not get rid of its answers would hang up.
            tokio::select! {
                read = input.read(&mut asked), if input_open && self.outgoing.is_empty() => match read {
                    Ok(0) => {
                        input_open = false;
                        grace_over = Box::pin(sleep(grace.duration()));
                        self.end_input();
                    }
                    Ok(length) => self.pass_on(&asked[..length]),
                    Err(error) => {
                        let line = format!("cannot read the standard input: {error}");
                        return Err(Failure::Unexpected(Words::new(line)));
                    }
                },
                written = self.to_daemon.write(&self.outgoing), if !self.outgoing.is_empty() => {
                    let length = written.map_err(|error| broken(socket, &error))?;
                    self.outgoing.drain(..length);
                }
                read = self.from_daemon.read(&mut answered) => match read {
                    Ok(0) => return Err(gone(socket)),
                    Ok(length) => self.pass_back(&answered[..length])?,
                    Err(error) => return Err(broken(socket, &error)),
                },
                () = &mut grace_over => {
                    self.say_bye().await;
                    return self.hang_up(grace);
                }
            }
        }
        self.say_bye().await;
        Ok(())
    }

    /// The end of the input is the end of its holder.
    async fn say_bye(&mut self) {
        if self.outgoing.is_empty() {
            // A daemon that takes nothing more hears of the end when it is there.
            let _ = tokio::time::timeout(BYE_WITHIN, self.to_daemon.write_all(BYE)).await;
        }
    }

    fn is_done(&self) -> bool {
        self.is_answered() && !self.owed.only_looks()
    }

    fn is_answered(&self) -> bool {
        self.outgoing.is_empty() && self.welcomed && self.owed.is_settled()
    }

    /// The end of the connection ends the session, whatever it still waits for.
    fn hang_up(&self, grace: Span) -> Result<(), Failure> {
        if self.is_answered() {
            return Ok(());
        }
        let owed = counted(self.owed.count().max(1), "answer");
        let line = format_args!("{owed} missing {grace} after the end of the input");
        Err(Failure::Refused(Words::new(line).hint("wait longer with --grace")))
    }

    fn pass_on(&mut self, bytes: &[u8]) {
        for line in self.asked.push(bytes) {
            self.owed.asked(&line);
        }
        self.outgoing.extend_from_slice(bytes);
    }

    /// A last line without its end is a line all the same.
    fn end_input(&mut self) {
        if let Some(line) = self.asked.finish() {
            self.owed.asked(&line);
            self.outgoing.push(b'\n');
        }
        if self.owed.needs_last_question() {
            self.owed.asked_last();
            self.outgoing.extend_from_slice(LAST_QUESTION);
        }
    }

    fn pass_back(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for mut line in self.answered.push(bytes) {
            if !self.welcomed {
                self.welcomed = true;
                owed::check_welcome(&line).map_err(|answer| {
                    Failure::Unexpected(Words::new(format_args!(
                        "the daemon rejected the connection: {answer}"
                    )))
                })?;
                continue;
            }
            if self.owed.answered(&line) {
                line.push(b'\n');
                self.printer.bytes(&line)?;
            }
        }
        self.printer.flush()
    }
}

fn unreachable(socket: &Path, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound => {
            Failure::NoDaemon { address: format!("unix:{}", socket.display()), cause: None }
        }
        _ => Failure::Unexpected(Words::new(format_args!("cannot use {}: {error}", socket.display()))),
    }
}

fn broken(socket: &Path, error: &std::io::Error) -> Failure {
    Failure::Unexpected(Words::new(format_args!("the connection to {} broke: {error}", socket.display())))
}

fn gone(socket: &Path) -> Failure {
    Failure::Unexpected(Words::new(format_args!("the daemon closed the connection to {}", socket.display())))
}
