//! Outside crates: licence, bans and source, from the same `deny.toml` that cargo-deny reads.
//! In CI this stands for cargo-deny, which takes minutes to build.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::Metadata;
use toml::{Table, Value};

use super::Finding;
use super::tree::Tree;
use crate::shell;

const POLICY: &str = "deny.toml";

/// What the rules need to know of one package, ours or not.
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    licence: Option<String>,
    /// `None` for our own.
    source: Option<String>,
}

/// The part of `deny.toml` that is checked here.
struct Policy {
    licences: Vec<String>,
    banned: Vec<String>,
    registries: Vec<String>,
}

/// All packages of the build. The metadata also lists optional ones that nothing turns on; `cargo tree` does not.
pub(super) fn packages(metadata: &Metadata) -> Result<Vec<Package>> {
    let mut tree = shell::cargo(["tree", "--workspace", "--all-features", "--target", "all"]);
    let built =
        shell::read(tree.args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}"]))?;
    let built: BTreeSet<&str> = built.lines().filter_map(|line| line.split(' ').next()).collect();
    let packages =
        metadata.packages.iter().filter(|package| built.contains(package.name.as_str())).map(|package| {
            Package {
                name: package.name.to_string(),
                version: package.version.to_string(),
                licence: package.license.clone(),
                source: package.source.as_ref().map(|source| source.repr.clone()),
            }
        });
    Ok(packages.collect())
}

/// Checks the packages against the policy of the tree.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Result<Vec<Finding>> {
    let text = tree.text_of(POLICY).context("there is no deny.toml")?;
    let policy = policy(text)?;
    Ok(packages
        .iter()
        .flat_map(|package| check_package(&policy, package))
        .map(|message| Finding::error(POLICY, 1, message))
        .collect())
}

fn check_package(policy: &Policy, package: &Package) -> Vec<String> {
    let shown = format!("{} {}", package.name, package.version);
    let mut messages = Vec::new();
    match &package.licence {
        None => messages.push(format!("{shown} names no licence")),
        Some(licence) if !is_allowed(licence, &policy.licences) => {
            messages.push(format!("the licence of {shown} is not allowed: {licence}"));
        }
        Some(_) => {}
    }
    if policy.banned.contains(&package.name) {
        messages.push(format!("{shown} is banned"));
    }
    if let Some(source) = &package.source
        && !policy.registries.iter().any(|registry| source == &format!("registry+{registry}"))
    {
        messages.push(format!("{shown} comes from elsewhere: {source}"));
    }
    messages
}

fn policy(text: &str) -> Result<Policy> {
    let table: Table = text.parse().context("deny.toml")?;
    Ok(Policy {
        licences: names(&table, "licenses", "allow")?,
        banned: names(&table, "bans", "deny")?,
        registries: names(&table, "sources", "allow-registry")?,
    })
}

/// A list of names; each a string or a table with the key `crate`.
fn names(table: &Table, section: &str, key: &str) -> Result<Vec<String>> {
    let list = table
        .get(section)
        .and_then(|section| section.get(key))
        .and_then(Value::as_array)
        .with_context(|| format!("deny.toml has no list {section}.{key}"))?;
    list.iter()
        .map(|entry| {
            entry
                .as_str()
                .or_else(|| entry.get("crate")?.as_str())
                .map(str::to_owned)
                .with_context(|| format!("deny.toml: {section}.{key} holds more than names"))
        })
        .collect()
}

/// Whether an SPDX expression can be met with the allowed licences. Old manifests write `/` for OR.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let answer = any(&mut words, allowed);
    answer && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut answer = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        // Not `||`: the words must be read either way.
        answer |= all(words, allowed);
    }
    answer
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut answer = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        answer &= one(words, allowed);
    }
    answer
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => {
            let answer = any(words, allowed);
            words.next_if_eq(&")").is_some() && answer
        }
        Some(licence) => {
            let mut licence = licence.to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                licence += " WITH ";
                licence += words.next().unwrap_or_default();
            }
            allowed.contains(&licence)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENY: &str = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]\n\
        [bans]\ndeny = [\"ring\", { crate = \"openssl\" }]\n\
        [sources]\nallow-registry = [\"https://example.org/index\"]\n";

    fn messages(name: &str, licence: Option<&str>, source: Option<&str>) -> Vec<String> {
        let package = Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            source: source.map(str::to_owned),
        };
        let findings = check(&Tree::of(&[("deny.toml", DENY)]), &[package]).unwrap();
        findings.into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn expressions_are_read() {
        let allowed = ["MIT".to_owned(), "A WITH x".to_owned(), "Zlib".to_owned()];
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(GPL-3.0 OR MIT) AND Zlib",
            "A WITH x OR GPL-3.0",
            "GPL-3.0 AND MIT OR Zlib",
        ] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "A", "(MIT", "MIT)", "MIT MIT", "A WITH"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn licences_bans_and_sources_are_checked() {
        let home = Some("registry+https://example.org/index");
        assert_eq!(messages("x", Some("MIT"), home), [""; 0]);
        assert_eq!(messages("ours", Some("Apache-2.0 OR MIT"), None), [""; 0]);
        assert_eq!(messages("x", None, home), ["x 1.0.0 names no licence"]);
        assert_eq!(messages("x", Some("GPL-3.0"), home), ["the licence of x 1.0.0 is not allowed: GPL-3.0"]);
        assert_eq!(messages("ring", Some("MIT"), home), ["ring 1.0.0 is banned"]);
        assert_eq!(messages("openssl", Some("MIT"), home), ["openssl 1.0.0 is banned"]);
        assert_eq!(
            messages("x", Some("MIT"), Some("git+https://example.org/x")),
            ["x 1.0.0 comes from elsewhere: git+https://example.org/x"]
        );
    }

    #[test]
    fn a_policy_that_lost_a_list_is_an_error() {
        assert!(policy("[licenses]\nallow = []\n").is_err());
        assert!(check(&Tree::of(&[]), &[]).is_err());
    }
}
