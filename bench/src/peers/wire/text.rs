//! Numbers and marks in bytes, written and read by hand: what the load costs is taken from the peer that shares the
//! machine with it.

/// Adds a number as people write it.
pub(crate) fn put_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut begin = digits.len();
    loop {
        begin -= 1;
        digits[begin] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

/// Adds the last so many hexadecimal digits of a number.
pub(crate) fn put_hex(number: u64, digits: u32, out: &mut Vec<u8>) {
    out.extend((0..digits).rev().map(|place| b"0123456789abcdef"[(number >> (4 * place) & 15) as usize]));
}

/// What follows the first occurrence of a mark.
pub(crate) fn after<'a>(bytes: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let place = bytes.windows(mark.len()).position(|window| window == mark)?;
    Some(&bytes[place + mark.len()..])
}

/// The number that the bytes begin with, and what follows it.
pub(crate) fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at(digits);
    let value = digits
        .iter()
        .try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    (!digits.is_empty()).then_some((value, rest))
}

/// The beginning of what was not understood, for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_do_and_read_back() {
        for value in [0, 9, 10, 1_234_567_890, u64::MAX] {
            let mut out = Vec::new();
            put_number(value, &mut out);
            assert_eq!(out, value.to_string().into_bytes());
            assert_eq!(number(&out), Some((value, [].as_slice())));
        }
        assert_eq!(number(b"x"), None);
        assert_eq!(number(b"99999999999999999999"), None);
    }

    #[test]
    fn hexadecimal_digits_are_as_many_as_asked_for() {
        let mut out = Vec::new();
        put_hex(0x1f, 4, &mut out);
        put_hex(0x12_3456, 2, &mut out);
        assert_eq!(out, b"001f56");
    }
}
