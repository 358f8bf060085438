//! What pollers and targets are called.

use proptest::prelude::*;

/// How ids of targets look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// `s0`, `s1`, …
    Sequential,
    Uuid,
    /// `00000000`, `00000001`, …
    Padded,
    Url,
    /// Long, and alike until the last digits.
    Prefixed,
}

pub(crate) const SHAPES: [Shape; 5] =
    [Shape::Sequential, Shape::Uuid, Shape::Padded, Shape::Url, Shape::Prefixed];

/// How many pollers there are where every number of them is tried.
pub(crate) const FLEETS: [usize; 6] = [1, 2, 3, 5, 10, 50];

impl Shape {
    pub(crate) fn target(self, number: usize) -> String {
        match self {
            Self::Sequential => format!("s{number}"),
            Self::Uuid => {
                let (high, low) = (scrambled(2 * number as u64), scrambled(2 * number as u64 + 1));
                let (first, second, third) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
                format!(
                    "{first:08x}-{second:04x}-4{third:03x}-a{:03x}-{:012x}",
                    low >> 52,
                    low & ((1 << 48) - 1)
                )
            }
            Self::Padded => format!("{number:08}"),
            Self::Url => {
                format!("https://sensors.example:8443/v2/racks/{}/units/{number}?every=5s", number % 7)
            }
            Self::Prefixed => format!("{}/{number}", "building-7/floor-3/room-12/cabinet-4/sensor".repeat(3)),
        }
    }

    pub(crate) fn targets(self, count: usize) -> Vec<String> {
        (0..count).map(|number| self.target(number)).collect()
    }
}

/// How pollers are called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Naming {
    /// `host-<nanoseconds>-<eight hex digits>`, as instances that were given no name.
    Drawn,
    /// `poller-0`, …
    Numbered,
    /// `a`, `b`, … `aa`, …
    Letters,
}

impl Naming {
    pub(crate) fn poller(self, number: usize) -> String {
        match self {
            Self::Drawn => instance(number as u64),
            Self::Numbered => format!("poller-{number}"),
            Self::Letters => {
                let letter = char::from(b'a' + (number % 26) as u8);
                letter.to_string().repeat(number / 26 + 1)
            }
        }
    }

    pub(crate) fn pollers(self, count: usize) -> Vec<String> {
        (0..count).map(|number| self.poller(number)).collect()
    }
}

/// An instance that was given no name.
pub(crate) fn instance(number: u64) -> String {
    let nanos = 1_768_000_000_000_000_000 + scrambled(number) % 10_000_000_000_000_000;
    format!("host-{nanos}-{:08x}", scrambled(number + (1 << 40)) >> 32)
}

pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    prop::sample::select(&SHAPES[..])
}

pub(crate) fn namings() -> impl Strategy<Value = Naming> {
    prop::sample::select(&[Naming::Drawn, Naming::Numbered, Naming::Letters][..])
}

/// SplitMix64: numbers that look drawn, and are the same in every run.
pub(crate) fn scrambled(number: u64) -> u64 {
    let value = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
