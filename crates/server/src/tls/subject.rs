//! Names in certificates, as text that two different certificates never share by accident.

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::net::IpAddr;
use tenure_engine::kernel::limits::PRINCIPAL_BYTES_MAX;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, RelativeDistinguishedName, X509Name};

/// What stands before a subject in a principal.
const PREFIX: &str = "cert:";

/// Short names of RFC 4514, and two that are as usual.
const TYPES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.1", "UID"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
];

/// The names of a caller's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CertificateNames {
    /// Whom it names, as in the principal.
    pub(crate) subject: String,
    /// All its alternative names, as `URI:…`, `DNS:…` or `email:…`.
    pub(crate) alternatives: Vec<String>,
}

impl CertificateNames {
    /// `None`: it names nobody.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let alternatives = alternatives(&certificate);
        Some(Self { subject: subject(&certificate, &alternatives)?, alternatives })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.subject == name || self.alternatives.iter().any(|alternative| alternative == name)
    }
}

/// Whom a certificate names: its subject as in RFC 4514, most specific part first; without one its first
/// alternative name, as `URI:…`, `DNS:…` or `email:…`. `None`: nobody. A name that is too long for a principal is
/// replaced by its hash, because cutting it could make two the same.
fn subject(certificate: &X509Certificate<'_>, alternatives: &[String]) -> Option<String> {
    let shown = match distinguished(certificate.subject()) {
        shown if shown.is_empty() => alternatives.first()?.clone(),
        shown => shown,
    };
    if PREFIX.len() + shown.len() <= PRINCIPAL_BYTES_MAX {
        return Some(shown);
    }
    let mut hash = "sha256:".to_owned();
    write_hex(&mut hash, &Sha256::digest(shown.as_bytes()));
    Some(hash)
}

/// Names and addresses that a certificate is good for.
pub(super) fn names_of(certificate: &CertificateDer<'_>) -> Result<Vec<String>, String> {
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let extension = certificate.subject_alternative_name().map_err(|error| error.to_string())?;
    let general = extension.iter().flat_map(|extension| &extension.value.general_names);
    Ok(general
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
            _ => None,
        })
        .collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn alternatives(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let general = extension.iter().flat_map(|extension| &extension.value.general_names);
    let named = general.filter_map(|name| match name {
        GeneralName::URI(name) => Some(("URI", name)),
        GeneralName::DNSName(name) => Some(("DNS", name)),
        GeneralName::RFC822Name(name) => Some(("email", name)),
        _ => None,
    });
    named
        .map(|(kind, name)| {
            let mut shown = format!("{kind}:");
            write_escaped(&mut shown, name);
            shown
        })
        .collect()
}

fn distinguished(name: &X509Name<'_>) -> String {
    // RFC 4514, 2.1: the last part comes first.
    let parts: Vec<&RelativeDistinguishedName<'_>> = name.iter().collect();
    let shown: Vec<String> =
        parts.iter().rev().map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+")).collect();
    shown.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    let known = TYPES.iter().find(|(known, _)| *known == oid);
    let mut shown = known.map_or(oid.as_str(), |(_, short)| *short).to_owned();
    shown.push('=');
    match attribute.as_str() {
        Ok(value) if known.is_some() => write_escaped(&mut shown, value),
        Ok(_) | Err(_) => {
            // RFC 4514, 2.4: what is not known to be text is shown in hexadecimal, after its kind.
            let _ = write!(shown, "#{:02x}", attribute.attr_value().tag().0);
            write_hex(&mut shown, attribute.as_slice());
        }
    }
    shown
}

/// RFC 4514, 2.4: what has a meaning in the text is escaped, and so is everything that cannot be seen.
fn write_escaped(shown: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        let at_an_end = (index == 0 && matches!(character, ' ' | '#')) || (index == last && character == ' ');
        match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => shown.extend(['\\', character]),
            _ if at_an_end => shown.extend(['\\', character]),
            _ if character.is_control() => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(shown, "\\{byte:02x}");
                }
            }
            _ => shown.push(character),
        }
    }
}

fn write_hex(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(shown, "{byte:02x}");
    }
}
