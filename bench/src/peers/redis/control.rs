//! One question at a time to a Redis, beside what is measured.

use crate::peers::wire::resp::put_command;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(in crate::peers) struct Control {
    stream: BufReader<UnixStream>,
}

/// How long an answer may take; storms stop everything for a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

impl Control {
    pub(in crate::peers) fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    pub(in crate::peers) fn ping(&mut self) -> Result<()> {
        self.text(&[b"PING"]).map(drop)
    }

    /// The server's wall clock.
    pub(in crate::peers) fn time_ms(&mut self) -> Result<u64> {
        self.ask(&[b"TIME"])?;
        let head = self.line()?;
        if head != "*2" {
            bail!("redis answers {head:?} to TIME");
        }
        let seconds: u64 = self.answer()?.parse()?;
        let microseconds: u64 = self.answer()?.parse()?;
        Ok(seconds * 1_000 + microseconds / 1_000)
    }

    /// A number that is answered.
    pub(in crate::peers) fn number(&mut self, words: &[&[u8]]) -> Result<u64> {
        let answer = self.text(words)?;
        answer.parse().with_context(|| format!("redis answers {answer:?}"))
    }

    /// What is answered, whatever its type; an error is one.
    pub(in crate::peers) fn text(&mut self, words: &[&[u8]]) -> Result<String> {
        self.ask(words)?;
        self.answer()
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<()> {
        let mut bytes = Vec::new();
        put_command(words, &mut bytes);
        self.stream.get_mut().write_all(&bytes)?;
        Ok(())
    }

    fn answer(&mut self) -> Result<String> {
        let line = self.line()?;
        match line.split_at_checked(1) {
            Some(("+" | ":", rest)) => Ok(rest.to_owned()),
            Some(("$", "-1")) => Ok(String::new()),
            Some(("$", length)) => {
                let mut text = vec![0; length.parse::<usize>()? + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(text.len() - 2);
                Ok(String::from_utf8(text)?)
            }
            _ => bail!("redis answers {line:?}"),
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
