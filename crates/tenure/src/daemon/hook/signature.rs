//! Signs what is posted, so that the receiver knows that this daemon sent it, and when. The form is the one of Stripe's
//! webhooks: `t=SECONDS,v1=HEX`.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tenure_server::{Owner, open_guarded, warn_if_readable};

/// Where the secret is. It is read for each signature, so that a new one counts at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SecretFile(PathBuf);

/// What is shared with the receiver. Never shown.
struct Secret(Vec<u8>);

pub(super) const HEADER: &str = "tenure-signature";
const SECRET_BYTES_MIN: usize = 16;
const SECRET_BYTES_MAX: usize = 4_096;

impl SecretFile {
    /// Checks that the file can be used.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let file = Self(path.to_owned());
        let (_, found) = file.read()?;
        warn_if_readable(path, &found);
        Ok(file)
    }

    /// The header's value for a body that is sent at this time.
    pub(super) fn sign(&self, unix_seconds: u64, body: &[u8]) -> Result<String, String> {
        Ok(self.read()?.0.sign(unix_seconds, body))
    }

    fn read(&self) -> Result<(Secret, Metadata), String> {
        let path = self.0.display();
        let unreadable = |error| format!("cannot read the secret from {path}: {error}");
        let (file, found) = open_guarded(&self.0, Owner::Any).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let end = bytes.trim_ascii_end().len();
        bytes.truncate(end);
        if bytes.len() > SECRET_BYTES_MAX || bytes.contains(&b'\n') {
            return Err(format!("{path} has more than one line with a secret"));
        }
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "the secret in {path} is shorter than {SECRET_BYTES_MIN} characters; make one with: openssl rand -hex 32"
            ));
        }
        Ok((Secret(bytes), found))
    }
}

impl Secret {
    /// The time is signed with the body, so that a recorded request cannot be sent again later as new.
    fn sign(&self, unix_seconds: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("invariant: a key may have any length");
        mac.update(format!("{unix_seconds}.").as_bytes());
        mac.update(body);
        let mut header = format!("t={unix_seconds},v1=");
        for byte in mac.finalize().into_bytes() {
            let _ = write!(header, "{byte:02x}");
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_signature_is_what_openssl_makes_of_time_and_body() {
        // printf '1700000000.{"session_id":"x"}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let secret = Secret(b"0123456789abcdef".to_vec());
        assert_eq!(
            secret.sign(1_700_000_000, br#"{"session_id":"x"}"#),
            "t=1700000000,v1=62bd623d3dc1ebc175368fb5cebb01aec6d4808d4a5f0eb9c835ca0b920a47ec"
        );
    }

    #[test]
    fn a_secret_is_one_line_of_a_file_and_a_new_one_counts_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let problem = |text: &str| {
            fs::write(&path, text).unwrap();
            let problem = SecretFile::open(&path).unwrap_err();
            problem.replace(&path.display().to_string(), "FILE")
        };
        let short = "the secret in FILE is shorter than 16 characters; make one with: openssl rand -hex 32";
        assert_eq!(problem(""), short);
        assert_eq!(problem("0123456789abcde\n"), short);
        assert_eq!(
            problem("0123456789abcdef\n0123456789abcdef\n"),
            "FILE has more than one line with a secret"
        );
        assert_eq!(problem(&"x".repeat(SECRET_BYTES_MAX + 1)), "FILE has more than one line with a secret");

        fs::write(&path, "0123456789abcdef\r\n").unwrap();
        let file = SecretFile::open(&path).unwrap();
        let first = file.sign(1, b"{}").unwrap();
        assert_eq!(first, Secret(b"0123456789abcdef".to_vec()).sign(1, b"{}"));
        fs::write(&path, "fedcba9876543210").unwrap();
        assert_eq!(file.sign(1, b"{}").unwrap(), Secret(b"fedcba9876543210".to_vec()).sign(1, b"{}"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        let exposed = file.sign(1, b"{}").unwrap_err();
        assert!(exposed.ends_with(&format!("run chmod go-w {}", path.display())), "{exposed}");
        fs::remove_file(&path).unwrap();
        assert!(file.sign(1, b"{}").unwrap_err().starts_with("cannot read the secret from "));
    }
}
