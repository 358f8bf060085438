//! A response that is a stream of server-sent events, read message by message.

use crate::bytes_stream::ByteStream;
use crate::error::CallError;
use crate::sse::{Message, Parser, TooLarge};
use core::fmt;
use core::time::Duration;

/// The daemon sends something at least every 15 s; after three times that the connection is dead.
const SILENCE_LIMIT: Duration = Duration::from_secs(45);

/// The messages of one response.
pub(crate) struct Messages {
    stream: ByteStream,
    parser: Parser,
    /// What they are called in errors.
    of: &'static str,
}

impl Messages {
    pub(crate) fn new(stream: ByteStream, of: &'static str) -> Self {
        Self { stream: stream.with_piece_limit(SILENCE_LIMIT), parser: Parser::default(), of }
    }

    /// The next message; `None` after the last one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Message>, CallError> {
        loop {
            if let Some(message) = self.parser.next() {
                return Ok(Some(message));
            }
            let Some(piece) = self.stream.next().await? else { return Ok(None) };
            self.parser
                .push(&piece)
                .map_err(|TooLarge| unexpected(self.of, "a message that is larger than the limit"))?;
        }
    }

    pub(crate) fn leave_node(&self) {
        self.stream.leave_node();
    }
}

/// What came is not what such a stream has.
pub(crate) fn unexpected(of: &str, fault: impl fmt::Display) -> CallError {
    CallError::Unexpected { status: 200, message: format!("in {of}: {fault}"), definite: true, lost: false }
}
