//! What a resource or pool may be called. One function decides; everything else takes names as checked.

use crate::limits::{NAME_BYTES_MAX, POOL_SIZE_MAX};
use compact_str::{CompactString, format_compact};
use unicode_normalization::UnicodeNormalization;

/// A short piece of text: names, holders, reasons. Up to 24 bytes cost no allocation.
pub type Text = CompactString;

/// Prefix that belongs to the registrations face.
pub const REGISTRATIONS_PREFIX: &str = "mdns/";

/// Why a name was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameFault {
    /// No bytes at all.
    Empty,
    /// More than 255 bytes.
    TooLong,
    /// A segment between slashes is empty, or the name starts or ends with a slash.
    EmptySegment,
    /// A segment is `.` or `..`.
    DotSegment,
    /// A control character.
    ControlCharacter,
    /// Not in Unicode normal form C, so two spellings of one name could differ.
    NotNormalized,
    /// The prefix belongs to another face.
    ReservedPrefix,
}

impl NameFault {
    /// The fault as the end of a sentence that begins with the name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "is empty",
            Self::TooLong => "is longer than 255 bytes",
            Self::EmptySegment => "has an empty segment",
            Self::DotSegment => "has a segment '.' or '..'",
            Self::ControlCharacter => "contains a control character",
            Self::NotNormalized => "is not in Unicode normal form C",
            Self::ReservedPrefix => "lies under a prefix reserved to registrations",
        }
    }
}

/// Checks a resource or pool name.
///
/// # Errors
/// The first fault found.
pub fn check_name(name: &str) -> Result<(), NameFault> {
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    if name.is_ascii() {
        return check_ascii(name.as_bytes());
    }
    check_segments(name)?;
    if name.chars().any(char::is_control) {
        return Err(NameFault::ControlCharacter);
    }
    if !unicode_normalization::is_nfc(name) {
        return Err(NameFault::NotNormalized);
    }
    Ok(())
}

/// Almost every name is ASCII and every grant checks its names: neither look ends early, so both are vector instructions.
fn check_ascii(name: &[u8]) -> Result<(), NameFault> {
    let has_slash = name.iter().fold(false, |has, byte| has | (*byte == b'/'));
    let has_control = name.iter().fold(false, |has, byte| has | byte.is_ascii_control());
    if has_slash {
        name.split(|byte| *byte == b'/').try_for_each(check_segment)?;
    } else {
        check_segment(name)?;
    }
    if has_control { Err(NameFault::ControlCharacter) } else { Ok(()) }
}

fn check_segments(name: &str) -> Result<(), NameFault> {
    name.split('/').try_for_each(|segment| check_segment(segment.as_bytes()))
}

fn check_segment(segment: &[u8]) -> Result<(), NameFault> {
    match segment {
        b"" => Err(NameFault::EmptySegment),
        b"." | b".." => Err(NameFault::DotSegment),
        _ => Ok(()),
    }
}

/// The spelling of `name` that [`check_name`] accepts, for callers that prefer mending to refusing.
#[must_use]
pub fn normalize(name: &str) -> Text {
    name.nfc().collect()
}

/// Name of member `number` of a pool.
#[must_use]
pub fn pool_member(pool: &str, number: u32) -> Text {
    format_compact!("{pool}/{number}")
}

/// Splits `pool/7` into pool and number if it is spelled the way [`pool_member`] spells it.
#[must_use]
pub fn split_pool_member(name: &str) -> Option<(&str, u32)> {
    let (pool, digits) = name.rsplit_once('/')?;
    if digits.starts_with('0') || digits.len() > 5 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u32 = digits.parse().ok()?;
    (number <= POOL_SIZE_MAX).then_some((pool, number))
}
