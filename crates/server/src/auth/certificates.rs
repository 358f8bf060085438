//! What certain certificates may do: lines `subject scope`, where the subject may also be an alternative name. Other
//! certificates have what the settings say.
//!
//! Invariant: a slip never widens. While a line is refused, or the file cannot be read, a certificate that no line names
//! only keeps and gives back what it holds: the line in question may be its own.

use super::credentials::{CredentialFile, Reading, read_lines};
use super::{AuthError, TokenScope};
use crate::tls::CertificateNames;
use std::path::PathBuf;

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CertificateEntry {
    name: String,
    scope: TokenScope,
}

/// What the file says of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Row {
    /// It may do so much.
    Scope(TokenScope),
    /// It keeps and gives back what it holds, and does nothing else.
    Outdated(Option<TokenScope>),
    /// Nothing.
    None,
}

/// The lines of a file, followed while it changes.
#[derive(Debug)]
pub(super) struct CertificateTable(CredentialFile<CertificateEntry>);

impl CertificateTable {
    pub(super) fn open(path: PathBuf, boot_ms: u64) -> Result<Self, AuthError> {
        CredentialFile::open(path, read_certificates, boot_ms).map(Self)
    }

    pub(super) fn file(&self) -> &CredentialFile<CertificateEntry> {
        &self.0
    }

    /// What the first line says that names the certificate.
    pub(super) fn find(&self, shown: &CertificateNames, boot_ms: u64) -> Row {
        let known = self.0.known(boot_ms);
        let scope =
            known.entries.iter().find(|entry| shown.has(&entry.name)).map(|entry| entry.scope.clone());
        match scope {
            scope if known.state.is_outdated() => Row::Outdated(scope),
            Some(scope) => Row::Scope(scope),
            None if known.state.lines_rejected > 0 => Row::Outdated(None),
            None => Row::None,
        }
    }
}

fn read_certificates(text: &str) -> Reading<CertificateEntry> {
    read_lines(text, parse_entry, |entry| &entry.name)
}

/// A subject may have spaces; the last word is the scope.
fn parse_entry(line: &str) -> Result<CertificateEntry, String> {
    let (name, scope) = line
        .rsplit_once(char::is_whitespace)
        .ok_or("expected a subject or an alternative name of a certificate, and a scope")?;
    let name = name.trim_end();
    check_name(name)?;
    Ok(CertificateEntry { name: name.to_owned(), scope: TokenScope::parse(scope)? })
}

/// Refuses what could never be the name of a certificate as the daemon writes it: such a line would go unnoticed.
fn check_name(name: &str) -> Result<(), String> {
    if ["DNS:", "URI:", "email:", "sha256:"].iter().any(|kind| name.starts_with(kind)) {
        return Ok(());
    }
    if !name.contains('=') {
        return Err("a certificate is named by its subject, as in CN=ci,O=Example, or by an alternative name: DNS:…, \
                    URI:… or email:…"
            .to_owned());
    }
    let characters: Vec<char> = name.chars().collect();
    let is_loose = |around: &[char]| match around {
        [before, separator @ (',' | '=' | '+'), after] => {
            *before != '\\' && (*after == ' ' || (*separator == '=' && *before == ' '))
        }
        _ => false,
    };
    if characters.windows(3).any(is_loose) {
        return Err("a subject has no spaces around its commas and equals signs, as in CN=ci,O=Example; openssl x509 \
                    -noout -subject -nameopt RFC2253 shows it so"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(subject: &str, alternatives: &[&str]) -> CertificateNames {
        let alternatives = alternatives.iter().map(|name| (*name).to_owned()).collect();
        CertificateNames { subject: subject.to_owned(), alternatives }
    }

    fn scope(word: &str) -> Row {
        Row::Scope(TokenScope::parse(word).unwrap())
    }

    #[test]
    fn a_line_names_a_certificate_by_its_whole_subject_or_by_an_alternative_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificates");
        let text =
            "# who may do what\n\nCN=ci,O=My Org hold:build/*,gpu\nURI:spiffe://lab/x\tadmin\nCN=ci read\n";
        fs::write(&path, text).unwrap();
        let table = CertificateTable::open(path, 0).unwrap();
        let find = |subject: &str, alternatives: &[&str]| table.find(&names(subject, alternatives), 0);
        assert_eq!(find("CN=ci,O=My Org", &[]), scope("hold:build/*,gpu"));
        assert_eq!(find("CN=ci", &[]), scope("read"));
        assert_eq!(find("CN=x", &["DNS:x", "URI:spiffe://lab/x"]), scope("admin"));
        assert_eq!(
            find("CN=ci", &["URI:spiffe://lab/x"]),
            scope("admin"),
            "the first line that names it counts"
        );
        for other in ["CN=ci,O=Other", "CN=ci,O=My Org,C=DE", "cn=ci", "URI:spiffe://lab/"] {
            assert_eq!(find(other, &[]), Row::None, "{other}");
        }
    }

    #[test]
    fn a_line_that_could_never_count_is_refused() {
        let problem = |line: &str| parse_entry(line).unwrap_err();
        assert_eq!(
            problem("hold"),
            "expected a subject or an alternative name of a certificate, and a scope"
        );
        assert!(problem("ci hold").starts_with("a certificate is named by its subject"));
        assert!(problem("hold CN=ci").starts_with("a certificate is named by its subject"));
        for loose in ["CN = ci hold", "O=Example, CN=ci hold", "CN= ci hold", "CN=ci,O =Example hold"] {
            assert!(problem(loose).starts_with("a subject has no spaces around"), "{loose}");
        }
        assert_eq!(problem("CN=ci hold:*"), "a prefix has at least one character, as in hold:build/*");
        for good in [r"CN=ci,O=Acme\, Inc hold", r"CN=\ ci hold", "DNS:ci.example hold:a b"] {
            assert_eq!(parse_entry(good).is_ok(), !good.ends_with(" b"), "{good}");
        }
    }

    #[test]
    fn a_slip_never_widens_what_a_certificate_may_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificates");
        let put = |text: &str| {
            fs::write(path.with_extension("draft"), text).unwrap();
            fs::rename(path.with_extension("draft"), &path).unwrap();
        };
        put("CN=a hold:a/*\nCN=b read\n");
        let table = CertificateTable::open(path.clone(), 0).unwrap();
        let find = |name: &str, at| table.find(&names(name, &[]), at);
        let narrow = TokenScope::parse("hold:a/*").unwrap();
        assert_eq!(find("CN=a", 0), Row::Scope(narrow.clone()));
        put("CN=a hold:*\nCN=b read\n");
        assert_eq!(find("CN=a", 1_000), Row::Outdated(None), "it is not the default's");
        assert_eq!(find("CN=c", 1_000), Row::Outdated(None), "nobody knows whom the line is about");
        assert_eq!(find("CN=b", 1_000), scope("read"), "the other lines count");
        put("CN=a hold:a/*\n");
        assert_eq!(find("CN=a", 2_000), Row::Scope(narrow.clone()));
        assert_eq!(find("CN=b", 2_000), Row::None);
        fs::remove_file(&path).unwrap();
        assert_eq!(find("CN=a", 3_000), Row::Outdated(Some(narrow)));
        assert_eq!(find("CN=b", 3_000), Row::Outdated(None));
    }
}
