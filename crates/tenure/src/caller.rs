//! Who calls, where nobody says so: the user and the machine, stable from one command to the next.

use std::{env, fs};

/// Bytes of a holder's name at most.
const HOLDER_BYTES_MAX: usize = 128;

/// `user@host`: the holder of what is done by hand.
pub(crate) fn user_at_host() -> String {
    fitting(format!("{}@{}", user(), host()))
}

fn user() -> String {
    let uid = rustix::process::getuid().as_raw();
    let named = fs::read_to_string("/etc/passwd").ok().and_then(|passwd| name_of(&passwd, uid));
    named
        .or_else(|| env::var("USER").ok().filter(|name| !name.is_empty()))
        .unwrap_or_else(|| format!("uid{uid}"))
}

/// A line is `name:x:uid:…`.
fn name_of(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

fn host() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    if name.is_empty() { "localhost".to_owned() } else { name.into_owned() }
}

fn fitting(mut name: String) -> String {
    let end = (0..=HOLDER_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or(0));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let passwd = "root:x:0:0::/r:/bin/sh\nbroken\nalice:x:1000:1000:A:/h:/bin/sh\n";
        assert_eq!(name_of(passwd, 1000).as_deref(), Some("alice"));
        assert_eq!(name_of(passwd, 7), None);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(fitting("ü".repeat(100)).len(), 128);
        assert_eq!(fitting(format!("x{}", "ü".repeat(100))).len(), 127);
        assert_eq!(fitting("alice@host".to_owned()), "alice@host");
    }
}
