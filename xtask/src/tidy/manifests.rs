//! Manifests of packages: one version, one licence, one set of lints, and every version of a
//! dependency stands in the root.

use toml::{Table, Value};

use super::Finding;
use super::rust_source::numbered;
use super::tree::Tree;

/// What a package takes from `[workspace.package]`.
const INHERITED: &[&str] = &["version", "edition", "license"];
const DEPENDENCY_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Every `Cargo.toml` below the root.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !file.path.ends_with("/Cargo.toml") || file.is_test() {
            continue;
        }
        match file.text.parse::<Table>() {
            Ok(manifest) => findings.extend(check_manifest(&file.path, &file.text, &manifest)),
            Err(error) => {
                let message = format!("not TOML: {}", error.message());
                findings.push(Finding::error(&file.path, 1, message));
            }
        }
    }
    findings
}

fn check_manifest(path: &str, text: &str, manifest: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    let package = manifest.get("package").and_then(Value::as_table);
    for key in INHERITED {
        if !package.and_then(|package| package.get(*key)).is_some_and(is_inherited) {
            let message = format!("write `{key}.workspace = true`");
            findings.push(Finding::error(path, line_of(text, key), message));
        }
    }
    if !manifest.get("lints").is_some_and(is_inherited) {
        let message = "write `[lints]` with `workspace = true`";
        findings.push(Finding::error(path, line_of(text, "[lints]"), message));
    }
    for (name, value) in dependencies(manifest) {
        if !is_inherited(value) {
            let message = format!("`{name}`: its version belongs in the root; write `workspace = true`");
            findings.push(Finding::error(path, line_of(text, name), message));
        }
    }
    findings
}

/// All dependencies of all kinds, also those of one target.
fn dependencies(manifest: &Table) -> Vec<(&str, &Value)> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(|table| DEPENDENCY_TABLES.iter().filter_map(|kind| table.get(*kind)))
        .filter_map(Value::as_table)
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
        .collect()
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// The first line that begins with the key; the first line of the file if none does.
fn line_of(text: &str, key: &str) -> usize {
    numbered(text).find(|(_, line)| line.starts_with(key)).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"x\"\nversion.workspace = true\nedition.workspace = true\n\
        license.workspace = true\n[dependencies]\nanyhow = { workspace = true, features = [\"x\"] }\n\
        [lints]\nworkspace = true\n";

    fn shown(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/Cargo.toml", text), ("Cargo.toml", "[workspace]\n")]);
        check(&tree).iter().map(Finding::shown).collect()
    }

    #[test]
    fn a_package_inherits() {
        assert_eq!(shown(GOOD), [""; 0]);
    }

    #[test]
    fn versions_stand_in_the_root() {
        let pinned = GOOD.replace("[lints]", "libc = \"0.2\"\n[lints]");
        assert_eq!(
            shown(&pinned),
            ["crates/x/Cargo.toml:8: `libc`: its version belongs in the root; write `workspace = true`"]
        );
        let for_target = format!("{GOOD}[target.'cfg(unix)'.dev-dependencies]\nlibc = \"0.2\"\n");
        assert_eq!(shown(&for_target).len(), 1);
    }

    #[test]
    fn one_version_licence_and_set_of_lints() {
        let own = GOOD
            .replace("version.workspace = true", "version = \"2.0.0\"")
            .replace("license.workspace = true\n", "")
            .replace("[lints]\nworkspace = true\n", "");
        assert_eq!(
            shown(&own),
            [
                "crates/x/Cargo.toml:3: write `version.workspace = true`",
                "crates/x/Cargo.toml:1: write `license.workspace = true`",
                "crates/x/Cargo.toml:1: write `[lints]` with `workspace = true`",
            ]
        );
        assert_eq!(shown("[package\n").len(), 1);
    }
}
