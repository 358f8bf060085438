//! A proxy in front of the real daemon that does to single requests what networks do, and remembers them.
//! One request per connection, so that no connection that was kept open blurs what was done to which.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::run_support::{boot_ms, let_time_pass};

/// What happens to a request.
#[derive(Clone)]
pub(crate) enum Fault {
    /// The connection breaks; the daemon does not hear of it.
    Broken,
    /// The daemon hears it, its answer is lost.
    AnswerLost,
    /// Nothing comes back for as long as the page waits; the daemon does not hear of it.
    Silence,
    /// The answer comes later.
    Late(Duration),
    /// Somebody else answers: status, media type, more header lines, body.
    Answered(u16, &'static str, &'static str, &'static str),
}

/// Listens beside a daemon, under an origin of its own.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    daemon: SocketAddr,
    rules: Vec<Rule>,
    seen: Vec<Seen>,
    /// Connections to the daemon that answers may still come over.
    open: Vec<TcpStream>,
}

struct Rule {
    method: &'static str,
    part: &'static str,
    times: usize,
    fault: Fault,
}

/// A request that came by.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at_ms: u64,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<String>,
}

struct Asked {
    head: Vec<String>,
    body: Vec<u8>,
}

impl Proxy {
    pub(crate) fn before(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(Mutex::new(State { daemon, rules: Vec::new(), seen: Vec::new(), open: Vec::new() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            // Ends with the process of the test.
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || drop(serve(&state, address, stream)));
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next so many requests of a method whose path contains a text.
    pub(crate) fn fault(&self, method: &'static str, part: &'static str, times: usize, fault: Fault) {
        self.state.lock().unwrap().rules.push(Rule { method, part, times, fault });
    }

    /// All requests of a method whose path contains a text, until [`Proxy::heal`].
    pub(crate) fn fault_all(&self, method: &'static str, part: &'static str, fault: Fault) {
        self.fault(method, part, usize::MAX, fault);
    }

    pub(crate) fn heal(&self) {
        self.state.lock().unwrap().rules.clear();
    }

    /// Breaks every connection that is open.
    pub(crate) fn cut(&self) {
        for stream in self.state.lock().unwrap().open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The daemon is elsewhere since it was started again.
    pub(crate) fn move_to(&self, daemon: SocketAddr) {
        self.state.lock().unwrap().daemon = daemon;
    }

    pub(crate) fn seen(&self, method: &str, part: &str) -> Vec<Seen> {
        let state = self.state.lock().unwrap();
        state.seen.iter().filter(|seen| seen.method == method && seen.path.contains(part)).cloned().collect()
    }
}

impl State {
    /// Remembers a request; tells what happens to it.
    fn note(&mut self, seen: Seen) -> Option<Fault> {
        let hit =
            |rule: &&mut Rule| rule.times > 0 && rule.method == seen.method && seen.path.contains(rule.part);
        let fault = self.rules.iter_mut().find(hit).map(|rule| {
            rule.times -= usize::from(rule.times != usize::MAX);
            rule.fault.clone()
        });
        self.seen.push(seen);
        fault
    }
}

fn serve(state: &Mutex<State>, own: SocketAddr, mut page: TcpStream) -> std::io::Result<()> {
    let asked = read(&page)?;
    let mut words = asked.head[0].split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let seen = Seen { at_ms: boot_ms(), method, path, headers: asked.head[1..].to_vec() };
    let (fault, daemon) = {
        let mut state = state.lock().unwrap();
        (state.note(seen), state.daemon)
    };
    match fault {
        None => {
            let mut answer = forward(&asked, own, daemon)?;
            state.lock().unwrap().open.push(answer.try_clone()?);
            std::io::copy(&mut answer, &mut page)?;
        }
        Some(Fault::Broken) => {}
        Some(Fault::AnswerLost) => {
            forward(&asked, own, daemon)?.read_to_end(&mut Vec::new())?;
        }
        Some(Fault::Silence) => {
            page.read_to_end(&mut Vec::new())?;
        }
        Some(Fault::Late(time)) => {
            let mut answer = Vec::new();
            forward(&asked, own, daemon)?.read_to_end(&mut answer)?;
            let_time_pass(time, "a late answer");
            page.write_all(&answer)?;
        }
        Some(Fault::Answered(status, media, more, body)) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-type: {media}\r\n");
            page.write_all(format!("{head}{more}content-length: {length}\r\n\r\n{body}").as_bytes())?;
        }
    }
    page.shutdown(Shutdown::Both)
}

fn read(page: &TcpStream) -> std::io::Result<Asked> {
    let mut reader = BufReader::new(page);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = head.iter().find_map(|line| value_of(line, "content-length")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Asked { head, body })
}

/// Asks the daemon under its own name; what comes back is its answer.
fn forward(asked: &Asked, own: SocketAddr, daemon: SocketAddr) -> std::io::Result<TcpStream> {
    let mut head = asked.head[0].clone() + "\r\n";
    for line in &asked.head[1..] {
        if value_of(line, "connection").is_some() || value_of(line, "host").is_some() {
            continue;
        }
        let line = match value_of(line, "origin") {
            // For the daemon the page is its own.
            Some(origin) => format!("origin: {}", origin.replace(&own.to_string(), &daemon.to_string())),
            None => line.clone(),
        };
        head += &format!("{line}\r\n");
    }
    head += &format!("host: {daemon}\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(daemon)?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(&asked.body)?;
    Ok(stream)
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (known, value) = line.split_once(':')?;
    known.eq_ignore_ascii_case(name).then_some(value.trim())
}
