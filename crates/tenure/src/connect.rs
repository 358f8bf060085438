//! Finding the daemon and talking to it: from flags, environment and breadcrumbs to one [`Daemon`] that commands ask.
//!
//! Commands are asynchronous and run on one small runtime of this thread. Nothing here prints data.

mod looking;
mod refusal;
mod route;

pub(crate) use refusal::call_failure;
pub(crate) use route::{Route, route};

use std::env;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tenure_client::{CallError, Cause, Client, ClientBuilder, Endpoint, Endpoints, Method};

use crate::breadcrumb::Trail;
use crate::failure::{Failure, Words, chain};
use crate::printer::Printer;
use crate::secrets::in_file;
use crate::standalone::Standalone;

/// A node of a cluster without a leader holds a call for 12 s, with the default `--leader-ttl`, before it answers.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Where a daemon listens unless it was told otherwise.
const USUAL_ADDRESS: &str = "http://127.0.0.1:5641";

/// Which daemon, and with what credentials.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Finding the daemon")]
pub(crate) struct Reach {
    /// Use this daemon: http://HOST:PORT, https://HOST:PORT or unix:/PATH; for a cluster several URLs, comma-separated
    /// [default: the daemon on this machine]
    #[arg(long, global = true, value_name = "URL", env = "TENURE_ENDPOINT", hide_env_values = true)]
    #[arg(display_order = 110)]
    endpoint: Option<Endpoints>,
    /// Use no daemon: mDNS commands use mDNS themselves while they run
    #[arg(long, global = true, conflicts_with = "endpoint", display_order = 115)]
    standalone: bool,
    /// Send this token
    #[arg(long, global = true, value_name = "TOKEN", env = "TENURE_TOKEN", hide_env_values = true)]
    #[arg(display_order = 111)]
    token: Option<String>,
    /// Read the token from this file, to keep it off the command line
    #[arg(long, global = true, value_name = "FILE", env = "TENURE_TOKEN_FROM", value_parser = in_file)]
    #[arg(display_order = 111, hide_env_values = true)]
    token_from: Option<String>,
    /// Trust the CAs in this file (PEM) for https [default: the system's CAs]
    #[arg(long, global = true, value_name = "FILE", env = "TENURE_CA", hide_env_values = true)]
    #[arg(display_order = 112, hide_short_help = true)]
    ca: Option<PathBuf>,
    /// Present this client certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", env = "TENURE_CERT", hide_env_values = true)]
    #[arg(display_order = 113, hide_short_help = true)]
    cert: Option<PathBuf>,
    /// Use this private key (PEM) for the client certificate
    #[arg(long, global = true, value_name = "FILE", env = "TENURE_KEY", hide_env_values = true)]
    #[arg(display_order = 114, hide_short_help = true)]
    key: Option<PathBuf>,
}

/// The daemon that was found.
#[derive(Clone, Debug)]
pub(crate) struct Daemon {
    client: Client,
    how: How,
}

/// How a daemon was found.
#[derive(Clone, Debug)]
enum How {
    /// The caller said where it is.
    Told,
    Trail(Trail),
    /// It listens where daemons usually do, and is the caller's own or another trusted user's.
    Looked {
        is_own: bool,
    },
}

/// A daemon for mDNS commands: one that was found, or one of this process.
pub(crate) struct Found {
    pub(crate) daemon: Daemon,
    standalone: Option<Standalone>,
}

impl Found {
    /// Whether the daemon is this process.
    pub(crate) fn is_standalone(&self) -> bool {
        self.standalone.is_some()
    }

    /// Lets go: what this process advertised says goodbye.
    pub(crate) async fn end(self) -> Result<(), Failure> {
        match self.standalone {
            Some(standalone) => standalone.end(&self.daemon).await,
            None => Ok(()),
        }
    }
}

/// Runs a command that waits for others.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::Unexpected(Words::new(format_args!("cannot start the runtime: {error}")))
    })?;
    let outcome = runtime.block_on(work);
    // A read of standard input that nobody waits for any more must not keep the process.
    runtime.shutdown_background();
    outcome
}

impl Reach {
    /// Finds the daemon. A person is told which one it is where nothing named it and it is another user's.
    pub(crate) async fn daemon(&self, printer: &mut Printer) -> Result<Daemon, Failure> {
        let daemon = self.find().await?;
        let endpoint = daemon.endpoint();
        match &daemon.how {
            How::Looked { is_own: false } if io::stderr().is_terminal() || printer.is_verbose() => {
                printer.talk(format_args!(
                    "note: using the daemon at {endpoint}, which belongs to another user"
                ));
            }
            How::Trail(trail) if printer.is_verbose() => {
                let file = trail.file.display();
                printer.talk(format_args!("note: using the daemon at {endpoint}, found by {file}"));
            }
            How::Looked { .. } | How::Told if printer.is_verbose() => {
                printer.talk(format_args!("note: using the daemon at {endpoint}"));
            }
            How::Looked { .. } | How::Told | How::Trail(_) => {}
        }
        if matches!(endpoint, Endpoint::Unix(_)) && self.has_token_flag() {
            printer.talk("note: the token is not used: on the Unix socket the daemon knows you by your user");
        }
        Ok(daemon)
    }

    /// Whether the token is from the command line. One from the environment may be for other daemons.
    fn has_token_flag(&self) -> bool {
        let is_flag = |given: &Option<String>, variable| given.is_some() && env::var_os(variable).is_none();
        is_flag(&self.token, "TENURE_TOKEN") || is_flag(&self.token_from, "TENURE_TOKEN_FROM")
    }

    /// Finds the daemon, or starts one in this process that serves mDNS alone and ends with the command.
    pub(crate) async fn daemon_or_standalone(&self, printer: &mut Printer) -> Result<Found, Failure> {
        if !self.standalone {
            match self.daemon(printer).await {
                // One that is there but does not answer is no reason to say goodbye for it.
                Err(Failure::NoDaemon { cause: None, .. }) => {}
                found => return Ok(Found { daemon: found?, standalone: None }),
            }
        }
        let standalone = Standalone::start().await?;
        printer.talk("note: no daemon is running; this command uses mDNS itself until it ends");
        let client = self.client(Endpoint::Unix(standalone.socket()).into())?;
        Ok(Found { daemon: Daemon { client, how: How::Told }, standalone: Some(standalone) })
    }

    /// Finds the daemon.
    pub(crate) async fn find(&self) -> Result<Daemon, Failure> {
        if self.standalone {
            let words = Words::new("this command requires a daemon; --standalone is for mDNS commands only");
            return Err(Failure::Usage(words.hint("start a daemon with: tenure serve")));
        }
        if let Some(endpoint) = &self.endpoint {
            return Ok(Daemon { client: self.client(endpoint.clone())?, how: How::Told });
        }
        self.look().await
    }

    /// Finds a daemon again that went away. One that was told is where it was: of several nodes, the one that answered
    /// last is known.
    pub(crate) async fn find_again(&self, daemon: &Daemon) -> Result<Daemon, Failure> {
        match &self.endpoint {
            Some(_) => Ok(daemon.clone()),
            None => self.find().await,
        }
    }

    /// A daemon that answered, and no other: of several nodes, that one alone.
    pub(crate) fn pinned(&self, daemon: &Daemon) -> Result<Daemon, Failure> {
        match &self.endpoint {
            Some(_) => Ok(Daemon { client: self.client(daemon.endpoint().clone().into())?, how: How::Told }),
            None => Ok(daemon.clone()),
        }
    }

    /// The token to present, for those who write their requests themselves.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token_from.as_deref().or(self.token.as_deref())
    }

    fn client(&self, endpoints: Endpoints) -> Result<Client, Failure> {
        let is_https = is_https(&endpoints);
        let built = self.builder(endpoints.clone()).and_then(|builder| Ok(builder.build()?));
        built.map_err(|error| {
            if let Some(unreadable) = error.downcast_ref::<Unreadable>() {
                return Failure::Usage(Words::new(unreadable));
            }
            let words = Words::new(format_args!("cannot connect to {endpoints}: {}", chain(error.as_ref())));
            Failure::Usage(if is_https && self.ca.is_none() {
                words.hint("name the CA of its certificate with --ca FILE or TENURE_CA")
            } else {
                words
            })
        })
    }

    /// A client with the caller's credentials.
    fn builder(&self, endpoints: Endpoints) -> Result<ClientBuilder, Cause> {
        let is_https = is_https(&endpoints);
        let mut builder = Client::builder_of(endpoints).request_timeout(REQUEST_TIMEOUT);
        if let Some(token) = self.token() {
            builder = builder.token(token);
        }
        if is_https && let Some(ca) = &self.ca {
            builder = builder.ca_pem(read_pem(ca)?);
        }
        if is_https && let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            builder = builder.identity_pem(read_pem(cert)?, read_pem(key)?);
        }
        Ok(builder)
    }
}

impl Daemon {
    /// For calls that are not one question and one answer.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Where it is.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        self.client.endpoint()
    }

    /// Its socket, for those who speak lines.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        match (self.endpoint(), &self.how) {
            (Endpoint::Unix(path), _) => Some(path.clone()),
            (Endpoint::Http(_) | Endpoint::Https(_), How::Trail(trail)) => {
                trail.breadcrumb.socket.as_ref().map(PathBuf::from)
            }
            (Endpoint::Http(_) | Endpoint::Https(_), How::Told | How::Looked { .. }) => None,
        }
    }

    /// Asks for something; gives the API's own object.
    pub(crate) async fn get(&self, route: Route) -> Result<Value, Failure> {
        self.call(Method::GET, route, None::<&()>).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post(&self, route: Route, body: &impl Serialize) -> Result<Value, Failure> {
        self.call(Method::POST, route, Some(body)).await
    }

    /// Makes any call.
    pub(crate) async fn call(
        &self,
        method: Method,
        route: Route,
        body: Option<&impl Serialize>,
    ) -> Result<Value, Failure> {
        self.try_call(method, route, body).await.map_err(call_failure)
    }

    /// Makes any call, for those to whom it matters how it failed.
    pub(crate) async fn try_call(
        &self,
        method: Method,
        route: Route,
        body: Option<&impl Serialize>,
    ) -> Result<Value, CallError> {
        self.client.call_value(method, &route.path, body, route.wait).await
    }
}

/// An answer as the type it should be.
pub(crate) fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer).map_err(|error| {
        let line = format!("unexpected answer from the daemon: {error}");
        Failure::Unexpected(Words::new(line).hint("compare the versions: tenure --version and tenure status"))
    })
}

/// A file of the command line.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {cause}", path.display())]
struct Unreadable {
    path: PathBuf,
    cause: io::Error,
}

fn is_https(endpoints: &Endpoints) -> bool {
    endpoints.as_slice().iter().any(|endpoint| matches!(endpoint, Endpoint::Https(_)))
}

fn read_pem(path: &Path) -> Result<Vec<u8>, Unreadable> {
    fs::read(path).map_err(|cause| Unreadable { path: path.to_owned(), cause })
}
