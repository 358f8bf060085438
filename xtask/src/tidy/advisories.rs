//! Security advisories about outside crates, from a list in the repository: CI reaches registries and nothing else.
//! `cargo xtask advisories` writes the list from a clone of the RustSec database.

use anyhow::{Context, Result};
use cargo_metadata::semver::{Version, VersionReq};

use super::Finding;
use super::supply::Package;
use super::tree::Tree;

/// `ID package: requirement; requirement`: the requirements that are not affected.
pub(crate) const LIST: &str = "xtask/advisories.txt";

/// One line of the list.
pub(crate) struct Advisory {
    pub(crate) id: String,
    pub(crate) package: String,
    pub(crate) unaffected: Vec<VersionReq>,
}

/// Checks the packages against the list.
pub(super) fn check(tree: &Tree, packages: &[Package]) -> Result<Vec<Finding>> {
    let text = tree.text_of(LIST).with_context(|| format!("there is no {LIST}"))?;
    let advisories = parse(text)?;
    let mut findings = Vec::new();
    for package in packages {
        let version: Version = package.version.parse()?;
        for advisory in advisories.iter().filter(|advisory| advisory.affects(&package.name, &version)) {
            let message = format!("{} is about {} {version}", advisory.id, package.name);
            findings.push(Finding::error("Cargo.lock", 1, message));
        }
    }
    Ok(findings)
}

pub(crate) fn parse(text: &str) -> Result<Vec<Advisory>> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &str) -> Result<Advisory> {
    let not_one = || format!("{LIST}: not an advisory: {line}");
    let (id, rest) = line.split_once(' ').with_context(not_one)?;
    let (package, unaffected) = rest.split_once(':').with_context(not_one)?;
    let unaffected = unaffected.split(';').map(str::trim).filter(|text| !text.is_empty());
    let unaffected = unaffected.map(VersionReq::parse).collect::<Result<_, _>>().with_context(not_one)?;
    Ok(Advisory { id: id.to_owned(), package: package.to_owned(), unaffected })
}

impl Advisory {
    fn affects(&self, package: &str, version: &Version) -> bool {
        self.package == package && !self.unaffected.iter().any(|unaffected| unaffected.matches(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_affected_unless_a_requirement_says_otherwise() {
        let list =
            parse("# from somewhere\n\nRUSTSEC-2021-0001 a: >=1.2.3; <0.9\nRUSTSEC-2021-0002 b:\n").unwrap();
        let affected = |package: &str, version: &str| {
            let version = version.parse().unwrap();
            list.iter().filter(|advisory| advisory.affects(package, &version)).count()
        };
        assert_eq!(affected("a", "1.2.2"), 1);
        assert_eq!(affected("a", "1.2.3"), 0);
        assert_eq!(affected("a", "0.8.9"), 0);
        assert_eq!(affected("b", "77.0.0"), 1, "no version is known to be better");
        assert_eq!(affected("c", "1.0.0"), 0);
        assert!(parse("nonsense").is_err());
    }
}
