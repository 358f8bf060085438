//! Little-endian fields at fixed places. Callers have checked the length: the blocks have constant sizes.

pub(crate) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(block, at))
}

pub(crate) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(block, at))
}

pub(crate) fn u64_at(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(block, at))
}

pub(crate) fn put(block: &mut [u8], at: usize, field: &[u8]) {
    block[at..at + field.len()].copy_from_slice(field);
}

/// Whether every byte is zero. Folds whole pages instead of stopping early, so that the compiler makes it wide.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|page| page.iter().fold(0, |seen, byte| seen | byte) == 0)
}

fn array_at<const N: usize>(block: &[u8], at: usize) -> [u8; N] {
    block[at..at + N].try_into().expect("invariant: a slice of N bytes is an array of N bytes")
}
