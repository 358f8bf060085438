//! Where a transcript is played: a real daemon or a real Redis, and everybody who speaks with them in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use super::pattern::{Names, filled, match_json, match_lines, match_text};
use super::transcript::{Answer, Does, Request, Step, read, words};
use crate::cli_desk::Desk;
use crate::cli_streams::Running;
use crate::daemon::{Daemon, LIMIT};
use crate::fixture;
use crate::raw_http::Answered;
use crate::redis_server::{FORGETFUL, RedisServer};
use crate::run_support::{signal, wait_until};
use crate::wire::daemon::Served;
use crate::wire::events::Events;
use crate::wire::lines::Lines;

/// Who takes part.
pub(super) struct Stage {
    names: Names,
    served: Option<Served>,
    redis: Option<RedisServer>,
    desk: Option<Desk>,
    conversations: BTreeMap<String, Lines>,
    streams: BTreeMap<String, Events>,
    programs: BTreeMap<String, Running>,
}

impl Stage {
    /// A daemon with these flags, its log written for people.
    pub(super) fn daemon(flags: &[&str]) -> Self {
        Self::of(Daemon::prepared(&[&["--log-format", "text"], flags].concat()))
    }

    /// A daemon that is not running yet.
    pub(super) fn of(mut daemon: Daemon) -> Self {
        daemon.start_again();
        Self { served: Some(daemon.into()), ..Self::empty() }
    }

    /// Nobody runs.
    pub(super) fn desk() -> Self {
        Self { desk: Some(Desk::new()), ..Self::empty() }
    }

    /// A Redis, and a desk to ask it from. `<store>` is its URL.
    pub(super) fn redis() -> Self {
        let desk = Desk::new();
        let redis = RedisServer::start(&desk.path().join("redis.sock"), FORGETFUL);
        let names = Names::from([("store".to_owned(), redis.url())]);
        Self { redis: Some(redis), desk: Some(desk), names, ..Self::empty() }
    }

    fn empty() -> Self {
        Self {
            names: Names::new(),
            served: None,
            redis: None,
            desk: None,
            conversations: BTreeMap::new(),
            streams: BTreeMap::new(),
            programs: BTreeMap::new(),
        }
    }

    /// A value that the transcript knows by this name.
    pub(super) fn name(mut self, name: &str, value: &str) -> Self {
        self.names.insert(name.to_owned(), value.to_owned());
        self
    }

    /// What the transcripts so far called by this name.
    pub(super) fn value(&self, name: &str) -> &str {
        &self.names[name]
    }

    /// What the Redis answers.
    pub(super) fn redis_cli(&self, words: &[&str]) -> String {
        self.redis.as_ref().expect("a Redis").cli(words)
    }

    /// Plays a transcript of this directory.
    #[track_caller]
    pub(super) fn play(mut self, file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pinned").join(file);
        for Step { line, does } in read(&path) {
            if let Err(why) = self.step(&does) {
                let said = self.served.as_ref().map(|served| served.said()).unwrap_or_default();
                panic!("{file}:{line}: {why}\n{:?}\n{said}", self.names);
            }
        }
        self
    }

    fn step(&mut self, does: &Does) -> Result<(), String> {
        match does {
            Does::Http { request, answer, until } => self.http(request, answer, *until),
            Does::Stream { name, path } => {
                let path = filled(path, &self.names);
                let events = Events::admitted(self.served().http(), &path);
                self.streams.insert(name.clone(), events);
                Ok(())
            }
            Does::Say { name, json } => {
                let line = filled(json, &self.names);
                self.conversation(name).send(format!("{line}\n").as_bytes());
                Ok(())
            }
            Does::Hear { name, json } => self.hear(name, json),
            Does::Close { name } => {
                self.streams.remove(name);
                self.conversations.remove(name);
                Ok(())
            }
            Does::Run { variable, words, code, out, err } => {
                let answer = self.answer(variable.as_ref(), words);
                self.is_run(&answer, *code, out, err)
            }
            Does::Begin { name, words } => {
                let words = self.filled_words(words);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let running = Running::start(&mut self.at_desk().command(&words));
                self.programs.insert(name.clone(), running);
                Ok(())
            }
            Does::End { name, signal, code } => self.end(name, signal, *code),
            Does::Log { pattern } => self.log(pattern),
            Does::Talk { name, json } => self.talk(name, json),
            Does::Metric { name, value } => self.metric(name, *value),
            Does::Redis { words, out, until } => self.ask_redis(words, out, *until),
            Does::File { path, json } => self.file(path, json.as_deref()),
            Does::Daemon { verb } => {
                let served = self.served.as_mut().expect("a daemon");
                match verb.as_str() {
                    "stops" => served.stop(),
                    "starts" => served.start_again(),
                    other => return Err(format!("a daemon never {other}")),
                }
                Ok(())
            }
            Does::RedisEnds => {
                self.redis.as_mut().expect("a Redis").kill();
                Ok(())
            }
        }
    }

    pub(super) fn served(&self) -> &Served {
        self.served.as_ref().expect("a daemon")
    }

    fn at_desk(&self) -> &Desk {
        self.desk.as_ref().unwrap_or_else(|| &self.served().desk)
    }

    fn filled_words(&self, line: &str) -> Vec<String> {
        words(line).iter().map(|word| filled(word, &self.names)).collect()
    }

    fn http(&mut self, request: &Request, answer: &Answer, until: bool) -> Result<(), String> {
        let (path, body) = (filled(&request.path, &self.names), filled(&request.body, &self.names));
        let ask = || {
            let http = self.served().http();
            let mut http = request.headers.iter().fold(http, |http, (name, value)| http.with(name, value));
            http.ask(&request.method, &path, body.trim_end().as_bytes())
        };
        let mut answered = ask();
        let mut outcome = is_answered(answer, &answered, &mut self.names.clone());
        if until {
            wait_until(&format!("{} {path}: {outcome:?}", request.method), LIMIT, || {
                if outcome.is_err() {
                    answered = ask();
                    outcome = is_answered(answer, &answered, &mut self.names.clone());
                }
                outcome.is_ok()
            });
        }
        is_answered(answer, &answered, &mut self.names).map_err(|why| format!("{why}\n{answered:?}"))
    }

    /// `pipe…` speaks over the socket, `stdin…` over the standard input of `tenure stdio`.
    fn conversation(&mut self, name: &str) -> &mut Lines {
        if !self.conversations.contains_key(name) {
            let lines = match name {
                _ if name.starts_with("pipe") => self.served().lines(),
                _ if name.starts_with("stdin") => self.served().stdin(),
                _ => panic!("{name} is neither pipe nor stdin"),
            };
            self.conversations.insert(name.to_owned(), lines);
        }
        self.conversations.get_mut(name).expect("it was just opened")
    }

    fn hear(&mut self, name: &str, json: &str) -> Result<(), String> {
        let expected: Value = serde_json::from_str(json).map_err(|error| format!("{json}: {error}"))?;
        let got = if let Some(stream) = self.streams.get_mut(name) {
            stream.next().data
        } else if let Some(running) = self.programs.get(name) {
            running.object()
        } else {
            self.conversation(name).next()
        };
        match_json(&expected, &got, &mut self.names).map_err(|why| format!("{why}\n{got}"))
    }

    fn answer(&self, variable: Option<&(String, String)>, words: &str) -> fixture::Answer {
        let words = self.filled_words(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = self.at_desk().command(&words);
        if let Some((name, value)) = variable {
            command.env(name, filled(value, &self.names));
        }
        self.at_desk().answer(&mut command)
    }

    fn is_run(
        &mut self,
        answer: &fixture::Answer,
        code: i32,
        out: &[String],
        err: &[String],
    ) -> Result<(), String> {
        let is_json = out.first().is_some_and(|line| line.starts_with(['{', '[']));
        let said = if is_json {
            let expected = serde_json::from_str(&out.join("\n")).map_err(|error| error.to_string())?;
            let got = serde_json::from_str(&answer.out).map_err(|error| error.to_string());
            got.and_then(|got| match_json(&expected, &got, &mut self.names))
        } else {
            self.are_lines(out, &answer.out)
        };
        // What is said to people beside an answer is only looked at where the transcript has it.
        let talked = if err.is_empty() { Ok(()) } else { self.are_lines(err, &answer.err) };
        let ended = if answer.code == code { Ok(()) } else { Err("another exit code".to_owned()) };
        said.and(talked).and(ended).map_err(|why| format!("{why}\n{}", answer.all()))
    }

    fn are_lines(&mut self, expected: &[String], got: &str) -> Result<(), String> {
        let expected: Vec<&str> =
            expected.iter().map(|line| if line == "." { "" } else { line.as_str() }).collect();
        let got: Vec<&str> = got.lines().collect();
        match_lines(&expected, &got, &mut self.names).then_some(()).ok_or("other lines".to_owned())
    }

    fn end(&mut self, name: &str, wanted: &str, code: i32) -> Result<(), String> {
        let running = self.programs.get_mut(name).expect("it was begun");
        match wanted {
            "INT" => signal(running.child.id() as i32, Signal::INT),
            "TERM" => signal(running.child.id() as i32, Signal::TERM),
            // It ends by itself.
            "-" => {}
            other => return Err(format!("no signal is called {other}")),
        }
        let mut status = None;
        wait_until("the end of the command", LIMIT, || {
            status = running.child.try_wait().unwrap();
            status.is_some()
        });
        let got = status.and_then(|status| status.code());
        (got == Some(code)).then_some(()).ok_or(format!("{name} ended with {got:?}"))
    }

    /// Somewhere in the log is a line that ends like this, or is an object with these fields.
    fn log(&mut self, pattern: &str) -> Result<(), String> {
        let expected: Option<Value> =
            pattern.starts_with('{').then(|| serde_json::from_str(pattern).unwrap());
        let mut found = None;
        wait_until(&format!("a line {pattern} in the log"), LIMIT, || {
            found = self.served().said().lines().find_map(|line| {
                let mut names = self.names.clone();
                let fits = match &expected {
                    Some(expected) => serde_json::from_str(line)
                        .is_ok_and(|got: Value| match_json(expected, &got, &mut names).is_ok()),
                    None => match_text(&format!("<any>{pattern}"), line, &mut names),
                };
                fits.then_some(names)
            });
            found.is_some()
        });
        self.names = found.expect("it was waited for");
        Ok(())
    }

    /// Reads on in what a command writes to standard error.
    fn talk(&mut self, name: &str, json: &str) -> Result<(), String> {
        let expected: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let running = self.programs.get(name).expect("it was begun");
        loop {
            let line = running.said("");
            let mut names = self.names.clone();
            let got = serde_json::from_str(&line).unwrap_or(Value::Null);
            if match_json(&expected, &got, &mut names).is_ok() {
                self.names = names;
                return Ok(());
            }
        }
    }

    fn metric(&self, name: &str, value: f64) -> Result<(), String> {
        let mut seen = None;
        wait_until(&format!("{name} {value}"), LIMIT, || {
            let text = self.served().http().get("/metrics").text();
            let line =
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
            seen = line.and_then(|line| line.parse::<f64>().ok());
            seen == Some(value)
        });
        Ok(())
    }

    fn ask_redis(&mut self, words: &str, out: &[String], until: bool) -> Result<(), String> {
        let words = self.filled_words(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ask = || self.redis.as_ref().expect("a Redis").cli(&words);
        let mut got = ask();
        let expected: Vec<&str> = out.iter().map(String::as_str).collect();
        if until {
            wait_until(&format!("{words:?} {out:?}"), LIMIT, || {
                got = ask();
                match_lines(&expected, &got.lines().collect::<Vec<_>>(), &mut self.names.clone())
            });
        }
        self.are_lines(out, &got).map_err(|why| format!("{why}\n{got}"))
    }

    fn file(&mut self, path: &str, json: Option<&str>) -> Result<(), String> {
        let path: PathBuf = self.at_desk().path().join(path);
        let Some(json) = json else {
            return if path.exists() { Err("it is there".to_owned()) } else { Ok(()) };
        };
        let expected: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let mut got = Value::Null;
        wait_until(&format!("the file {}", path.display()), LIMIT, || {
            let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            read.map(|read| got = read).is_some()
        });
        match_json(&expected, &got, &mut self.names).map_err(|why| format!("{why}\n{got}"))
    }
}

fn is_answered(expected: &Answer, got: &Answered, names: &mut Names) -> Result<(), String> {
    if got.status != expected.status {
        return Err(format!("{} is not {}", got.status, expected.status));
    }
    if let Some(content_type) = &expected.content_type
        && got.header("content-type") != Some(content_type)
    {
        return Err(format!("content-type {:?}", got.header("content-type")));
    }
    if expected.body.is_empty() {
        return Ok(());
    }
    let body = expected.body.join("\n");
    if body.starts_with(['{', '[']) {
        let expected: Value = serde_json::from_str(&body).map_err(|error| format!("{body}: {error}"))?;
        return match_json(&expected, &got.json(), names);
    }
    let (lines, text): (Vec<&str>, String) = (expected.body.iter().map(String::as_str).collect(), got.text());
    let fits = match_lines(&lines, &text.lines().collect::<Vec<_>>(), names);
    fits.then_some(()).ok_or("other lines".to_owned())
}
