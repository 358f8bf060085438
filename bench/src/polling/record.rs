//! What a poller tells the witness: who it is, then each poll when it begins and when it ends. Bytes of fixed width,
//! so that telling costs next to nothing.

use anyhow::{Context, Result};
use std::io::{self, Read, Write};
use tenure_client::clock::BootInstant;

/// Bytes of a record.
const WIDTH: usize = 29;

/// Who speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Introduction {
    pub(super) pid: u32,
    /// When it began to join.
    pub(super) began: BootInstant,
    pub(super) instance: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Begin,
    End,
}

/// A poll begins or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Number of the target.
    pub(super) target: u32,
    pub(super) fence: u64,
    /// On the clock that all processes of the machine share.
    pub(super) at: BootInstant,
    /// Until when the poll might act, as far as the poller knew then.
    pub(super) valid_until: BootInstant,
}

impl Introduction {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.pid.to_le_bytes().to_vec();
        bytes.extend(self.began.as_ns().to_le_bytes());
        bytes.extend((self.instance.len() as u32).to_le_bytes());
        bytes.extend(self.instance.as_bytes());
        to.write_all(&bytes)
    }

    pub(super) fn read(from: &mut impl Read) -> Result<Self> {
        let pid = u32::from_le_bytes(take(from)?);
        let began = BootInstant::from_ns(u64::from_le_bytes(take(from)?));
        let length = u32::from_le_bytes(take(from)?);
        let mut instance = String::new();
        from.take(u64::from(length)).read_to_string(&mut instance).context("no instance")?;
        Ok(Self { pid, began, instance })
    }
}

impl Record {
    pub(super) fn add_to(&self, bytes: &mut Vec<u8>) {
        bytes.push(match self.kind {
            Kind::Begin => 0,
            Kind::End => 1,
        });
        bytes.extend(self.target.to_le_bytes());
        for number in [self.fence, self.at.as_ns(), self.valid_until.as_ns()] {
            bytes.extend(number.to_le_bytes());
        }
    }

    /// `None` at the end of what is told; a record that was cut off by the death of its poller is none.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; WIDTH];
        match from.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let number = |place: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[place..place + 8]);
            u64::from_le_bytes(number)
        };
        Ok(Some(Self {
            kind: if bytes[0] == 0 { Kind::Begin } else { Kind::End },
            target: u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]),
            fence: number(5),
            at: BootInstant::from_ns(number(13)),
            valid_until: BootInstant::from_ns(number(21)),
        }))
    }
}

fn take<const N: usize>(from: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).context("an introduction was cut off")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_is_read() {
        let introduction =
            Introduction { pid: 7, began: BootInstant::from_ms(5), instance: "kitchen~1".to_owned() };
        let begin = Record {
            kind: Kind::Begin,
            target: 70_000,
            fence: u64::MAX - 1,
            at: BootInstant::from_ns(123_456_789_012),
            valid_until: BootInstant::from_ms(9),
        };
        let end = Record { kind: Kind::End, ..begin };
        let mut bytes = Vec::new();
        introduction.write(&mut bytes).unwrap();
        begin.add_to(&mut bytes);
        end.add_to(&mut bytes);
        bytes.extend([0; WIDTH - 1]);
        let mut read = bytes.as_slice();
        assert_eq!(Introduction::read(&mut read).unwrap(), introduction);
        assert_eq!(Record::read(&mut read).unwrap(), Some(begin));
        assert_eq!(Record::read(&mut read).unwrap(), Some(end));
        assert_eq!(Record::read(&mut read).unwrap(), None);
    }
}
