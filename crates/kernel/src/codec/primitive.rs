//! Numbers, texts and lists as bytes.

use super::DecodeError;
use crate::ids::{LeaseId, Lsn, Tick};
use crate::names::Text;

/// Appends fields to a buffer.
pub(super) struct Writer<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    pub(super) fn byte(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub(super) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    pub(super) fn wide(&mut self, value: u128) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn fixed(&mut self, value: u64) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.number(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(super) fn tick(&mut self, value: Tick) {
        self.number(value.0);
    }

    pub(super) fn lsn(&mut self, value: Lsn) {
        self.number(value.0);
    }

    /// The shard first: it is almost always zero and then costs one byte.
    pub(super) fn lease(&mut self, value: LeaseId) {
        self.number(value.shard());
        self.lsn(value.lsn());
    }

    pub(super) fn optional<T: ?Sized>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }
}

/// Takes fields from bytes of any origin.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.rest.split_first().ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            code => Err(DecodeError::Unknown { what: "flag", code }),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only; one spelling per number, so no zero at the end.
            if (shift == 63 && part > 1) || (byte == 0 && shift > 0) {
                return Err(DecodeError::Range);
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Range)
    }

    pub(super) fn small(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| DecodeError::Range)
    }

    /// A number of things that take at least one byte each, so it cannot exceed the bytes left.
    pub(super) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.number()?).map_err(|_| DecodeError::Range)?;
        if count > self.rest.len() { Err(DecodeError::Short) } else { Ok(count) }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn wide(&mut self) -> Result<u128, DecodeError> {
        let bytes = self.take(16)?.try_into().map_err(|_| DecodeError::Short)?;
        Ok(u128::from_le_bytes(bytes))
    }

    pub(super) fn fixed(&mut self) -> Result<u64, DecodeError> {
        let bytes = self.take(8)?.try_into().map_err(|_| DecodeError::Short)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> Result<Text, DecodeError> {
        let bytes = self.bytes()?;
        let text = core::str::from_utf8(bytes).map_err(|_| DecodeError::Text)?;
        Ok(Text::new(text))
    }

    pub(super) fn tick(&mut self) -> Result<Tick, DecodeError> {
        self.number().map(Tick)
    }

    pub(super) fn lsn(&mut self) -> Result<Lsn, DecodeError> {
        self.number().map(Lsn)
    }

    pub(super) fn lease(&mut self) -> Result<LeaseId, DecodeError> {
        let shard = self.number()?;
        Ok(LeaseId::new(shard, self.lsn()?))
    }

    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }
}
