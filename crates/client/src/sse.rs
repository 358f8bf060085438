//! Reads server-sent events out of bytes that arrive in pieces of any size. Pure: bytes in, messages out.

use std::collections::VecDeque;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Message {
    /// The newest id seen, of this message or of one before it.
    pub(crate) id: Option<String>,
    /// The kind; empty where none was said.
    pub(crate) event: String,
    /// The lines of data, joined with newlines.
    pub(crate) data: String,
}

/// A message is larger than [`MESSAGE_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLarge;

/// Bytes of one message at most.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What was read of the message that is not complete yet.
#[derive(Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    begun: bool,
    /// A line ended with CR; an LF that follows belongs to it.
    after_cr: bool,
    id: Option<String>,
    event: String,
    data: Option<String>,
    ready: VecDeque<Message>,
}

impl Parser {
    /// Takes the next piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), TooLarge> {
        for byte in piece {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' => self.end_line(),
                b'\r' => {
                    self.end_line();
                    self.after_cr = true;
                    continue;
                }
                other => {
                    self.line.push(*other);
                    if self.line.len() + self.data.as_ref().map_or(0, String::len) > MESSAGE_BYTES_MAX {
                        return Err(TooLarge);
                    }
                }
            }
            self.after_cr = false;
        }
        Ok(())
    }

    /// The next whole message.
    pub(crate) fn next(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let bytes = core::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&bytes);
        if !self.begun {
            self.begun = true;
            if let Some(rest) = line.strip_prefix('\u{feff}') {
                line = rest.to_owned().into();
            }
        }
        if line.is_empty() {
            return self.end_message();
        }
        let (field, value) = match line.split_once(':') {
            Some((field, value)) => (field, value.strip_prefix(' ').unwrap_or(value)),
            None => (&*line, ""),
        };
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.event),
            "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
            // Comments have an empty name; names that are not known are nobody's.
            _ => {}
        }
    }

    /// A message without data is none; its id counts all the same.
    fn end_message(&mut self) {
        let event = core::mem::take(&mut self.event);
        if let Some(data) = self.data.take() {
            self.ready.push_back(Message { id: self.id.clone(), event, data });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(pieces: &[&[u8]]) -> Vec<Message> {
        let mut parser = Parser::default();
        for piece in pieces {
            parser.push(piece).expect("small messages");
        }
        core::iter::from_fn(|| parser.next()).collect()
    }

    fn message(id: Option<&str>, event: &str, data: &str) -> Message {
        Message { id: id.map(str::to_owned), event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn a_message_is_read_however_it_is_cut() {
        let whole =
            "id: 7\nevent: granted\ndata: {\"lsn\":7}\n\n: comment\n\nid: 8\ndata: grün\n\n".as_bytes();
        let expected = vec![message(Some("7"), "granted", "{\"lsn\":7}"), message(Some("8"), "", "grün")];
        assert_eq!(messages(&[whole]), expected);
        for cut in 0..whole.len() {
            assert_eq!(messages(&[&whole[..cut], &whole[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(messages(&bytes), expected);
    }

    #[test]
    fn lines_end_with_lf_crlf_or_cr() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["id: 1", "event: a", "data: x", "data: y", "", "data: z", "", ""].join(end);
            let expected = vec![message(Some("1"), "a", "x\ny"), message(Some("1"), "", "z")];
            assert_eq!(messages(&[text.as_bytes()]), expected, "{end:?}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(messages(&bytes), expected, "{end:?} byte by byte");
        }
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        assert_eq!(messages(&[b"data: a\ndata\ndata:b\ndata:  c\n\n"]), [message(None, "", "a\n\nb\n c")]);
    }

    #[test]
    fn comments_and_unknown_fields_are_nothing() {
        assert_eq!(messages(&[b": hello\n\n:\n\nretry: 5\ncolour: red\n\n"]), []);
        assert_eq!(messages(&[b"data: x\n: in between\n\n"]), [message(None, "", "x")]);
    }

    #[test]
    fn a_byte_order_mark_counts_only_at_the_beginning() {
        assert_eq!(messages(&["\u{feff}data: x\n\n".as_bytes()]), [message(None, "", "x")]);
        assert_eq!(messages(&["data: a\n\n\u{feff}data: x\n\n".as_bytes()]), [message(None, "", "a")]);
    }

    #[test]
    fn an_id_stays_until_the_next_one_also_without_data() {
        assert_eq!(messages(&[b"id: 3\n\ndata: x\n\n"]), [message(Some("3"), "", "x")]);
        assert_eq!(messages(&[b"id: 3\n\nid: a\0b\ndata: x\n\n"]), [message(Some("3"), "", "x")]);
    }

    #[test]
    fn a_message_that_never_ends_is_given_up() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; MESSAGE_BYTES_MAX / 2];
        parser.push(b"data: ").expect("small");
        parser.push(&piece).expect("half");
        assert_eq!(parser.push(&piece), Err(TooLarge));
        let mut parser = Parser::default();
        let lines = "data: 0123456789\n".repeat(MESSAGE_BYTES_MAX / 10);
        assert_eq!(parser.push(lines.as_bytes()), Err(TooLarge));
    }

    #[test]
    fn a_message_cut_off_at_the_end_is_none() {
        assert_eq!(messages(&[b"data: whole\n\ndata: half\n"]), [message(None, "", "whole")]);
    }
}
