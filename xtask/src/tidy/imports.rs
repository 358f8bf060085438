//! The import table: which of our packages may use which, and what none of their dependencies may
//! bring in. Dependencies point inward; a new package gets a row before it builds in CI.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use super::Finding;
use crate::shell;

/// One row of the table. Ours are named without `tenure-`.
struct Row {
    package: &'static str,
    /// Ours, as normal and build dependencies. Tests may use more.
    may_import: MayImport,
    /// Outside crates that must not be anywhere below the package.
    never: &'static [&'static [&'static str]],
}

enum MayImport {
    Only(&'static [&'static str]),
    /// Everything that is shipped.
    Product,
    /// The simulator too: for tools that measure and break things.
    ProductAndSim,
}
use MayImport::{Only, Product, ProductAndSim};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("kernel",   Only(&[]),                                                PURE),
    row("liveness", Only(&["kernel"]),                                        PURE),
    row("log",      Only(&[]),                                                &[ASYNC, HTTP]),
    // The protocol is pure; the store over gRPC is a feature that the simulator does without.
    row("cluster",  Only(&["log"]),                                           &[]),
    row("engine",   Only(&["kernel", "liveness", "log"]),                     &[ASYNC, HTTP]),
    row("history",  Only(&["kernel", "log"]),                                 &[ASYNC, HTTP]),
    row("api",      Only(&[]),                                                &[ASYNC]),
    row("assignment", Only(&[]),                                              PURE),
    row("faces",    Only(&["engine", "history", "api", "assignment"]),        &[HTTP]),
    row("mdns",     Only(&[]),                                                &[]),
    row("client",   Only(&["api"]),                                           &[]),
    row("polling",  Only(&["api", "client", "assignment"]),                   &[]),
    row("server",   Only(&["engine", "faces", "history", "api", "mdns"]),     &[]),
    row("tenure",   Product,                                                  &[]),
    row("sim",      Only(&["kernel", "liveness", "log", "cluster", "engine"]), &[ASYNC, HTTP, CLOCK]),
    row("bench",    ProductAndSim,                                            &[]),
    row("instructions", Only(&["kernel", "liveness", "log", "engine", "api"]), &[ASYNC, HTTP, CLOCK]),
    row("fuzz",     ProductAndSim,                                            &[]),
    row("xtask",    Only(&[]),                                                &[]),
];

/// Not shipped: no package of the product depends on one, not even for its tests.
const TOOLS: &[&str] = &["sim", "bench", "instructions", "fuzz", "xtask"];

const PURE: &[&[&str]] = &[CLOCK, RANDOM, LOGGING, SERDE, ASYNC, SYSTEM, HTTP];
const CLOCK: &[&str] = &["chrono", "time", "jiff", "quanta", "coarsetime", "minstant"];
const RANDOM: &[&str] = &["rand", "rand_core", "getrandom", "fastrand", "uuid", "ahash"];
const LOGGING: &[&str] = &["log", "tracing", "tracing-core", "slog"];
const SERDE: &[&str] = &["serde", "serde_core", "serde_json"];
const ASYNC: &[&str] = &["tokio", "async-std", "smol", "mio", "futures"];
const SYSTEM: &[&str] = &["rustix", "nix", "tempfile", "crossbeam-channel", "parking_lot", "rayon"];
const HTTP: &[&str] = &["http", "hyper", "axum", "tower", "reqwest", "ureq", "tungstenite"];

/// Outside crates that one package of ours alone may name, as a dependency of any kind.
const SINGLE_IMPORTERS: &[(&str, &str)] = &[("redis", "tenure-polling")];

/// The feature that compiles deliberate bugs in, for the simulator to find.
const PLANT: &str = "plant";

/// What the rules need to know of one package of ours.
pub(super) struct Package {
    name: String,
    /// Path of its manifest from the root.
    manifest: String,
    /// Its direct dependencies, ours and outside.
    imports: Vec<Import>,
    /// Names of all outside packages below it, with its own choice of features.
    below: BTreeSet<String>,
    /// What its feature `default` turns on.
    default_features: Vec<String>,
}

struct Import {
    name: String,
    kind: Kind,
    features: Vec<String>,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Kind {
    /// Normal and build dependencies.
    Product,
    Tests,
}

const fn row(package: &'static str, may_import: MayImport, never: &'static [&'static [&'static str]]) -> Row {
    Row { package, may_import, never }
}

/// The packages of the workspace and all outside packages, for the machine we build on.
pub(super) fn metadata() -> Result<Metadata> {
    let version = shell::read(std::process::Command::new("rustc").arg("-vV"))?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc does not name its host")?;
    let mut options: Vec<String> = shell::locked().iter().map(|o| (*o).to_owned()).collect();
    options.extend(["--filter-platform".to_owned(), host.to_owned()]);
    MetadataCommand::new().current_dir(shell::root()).other_options(options).exec().context("cargo metadata")
}

/// Our packages. What stands below one comes from `cargo tree`, because the graph in the metadata
/// mixes the features of all packages.
pub(super) fn packages(metadata: &Metadata) -> Result<Vec<Package>> {
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| {
            let mut tree = shell::cargo(["tree", "--edges", "normal,build", "--prefix", "none"]);
            tree.args(shell::locked());
            let below = shell::read(tree.args(["--package", &package.name]))?;
            let manifest = package
                .manifest_path
                .strip_prefix(&metadata.workspace_root)
                .unwrap_or(&package.manifest_path);
            Ok(Package {
                name: package.name.to_string(),
                manifest: manifest.to_string(),
                imports: package
                    .dependencies
                    .iter()
                    .map(|dependency| Import {
                        name: dependency.name.clone(),
                        kind: match dependency.kind {
                            DependencyKind::Development => Kind::Tests,
                            _ => Kind::Product,
                        },
                        features: dependency.features.clone(),
                    })
                    .collect(),
                below: names_in_tree(&below),
                default_features: package.features.get("default").cloned().unwrap_or_default(),
            })
        })
        .collect()
}

/// Checks the packages against the table.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

/// No package of the product turns planted bugs on, neither its own nor those of another.
pub(super) fn check_planted(packages: &[Package]) -> Vec<Finding> {
    let is_plant = |feature: &String| feature.rsplit('/').next() == Some(PLANT);
    packages
        .iter()
        .filter(|package| ours(&package.name).is_none_or(|short| !TOOLS.contains(&short)))
        .filter(|package| {
            let product = package.imports.iter().filter(|i| i.kind == Kind::Product);
            package.default_features.iter().any(is_plant)
                || product.flat_map(|import| &import.features).any(is_plant)
        })
        .map(|package| {
            let message = format!("{} turns the feature `{PLANT}` on in the product", package.name);
            Finding::error(&package.manifest, 1, message)
        })
        .collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let name = package.name.as_str();
    let error = |message: String| Finding::error(&package.manifest, 1, message);
    let Some(row) = TABLE.iter().find(|row| ours(name) == Some(row.package)) else {
        return vec![error(format!("{name} has no row in the import table of tidy"))];
    };
    let mut findings = Vec::new();
    for import in &package.imports {
        let imported = import.name.as_str();
        let is_allowed = ours(imported).is_none_or(|short| {
            let is_tool = TOOLS.contains(&short);
            match (import.kind, &row.may_import) {
                (Kind::Product | Kind::Tests, ProductAndSim) => !is_tool || short == "sim",
                (Kind::Tests, Only(_) | Product) => !is_tool || TOOLS.contains(&row.package),
                (Kind::Product, Only(few)) => few.contains(&short),
                (Kind::Product, Product) => !is_tool,
            }
        });
        if !is_allowed {
            findings.push(error(format!("{name} must not import {imported}")));
        }
        let importer = SINGLE_IMPORTERS.iter().find(|(only, _)| *only == imported);
        if let Some((_, importer)) = importer
            && *importer != name
        {
            findings.push(error(format!("{name} must not import {imported}: only {importer} knows it")));
        }
    }
    for never in row.never.iter().copied().flatten() {
        if package.below.contains(*never) {
            findings.push(error(format!(
                "{name} must not contain {never}; `cargo tree -p {name} -i {never}` shows who brings it"
            )));
        }
    }
    findings
}

/// The short name of a package of ours; `None` for the others, so that `log` is not `tenure-log`.
fn ours(package: &str) -> Option<&str> {
    match package {
        "tenure" | "xtask" => Some(package),
        other => other.strip_prefix("tenure-"),
    }
}

/// `name v1.2.3 …` per line.
fn names_in_tree(tree: &str) -> BTreeSet<String> {
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(name: &str, imports: &[(&str, Kind)], below: &str) -> Vec<String> {
        check(&[package(name, imports, below)]).into_iter().map(|finding| finding.message).collect()
    }

    fn package(name: &str, imports: &[(&str, Kind)], below: &str) -> Package {
        Package {
            name: name.to_owned(),
            manifest: "crates/x/Cargo.toml".to_owned(),
            imports: imports
                .iter()
                .map(|(name, kind)| Import { name: (*name).to_owned(), kind: *kind, features: Vec::new() })
                .collect(),
            below: names_in_tree(below),
            default_features: Vec::new(),
        }
    }

    #[test]
    fn dependencies_point_inward() {
        assert_eq!(
            messages("tenure-engine", &[("tenure-kernel", Kind::Product), ("thiserror", Kind::Product)], ""),
            [""; 0]
        );
        assert_eq!(
            messages("tenure-kernel", &[("tenure-engine", Kind::Product)], ""),
            ["tenure-kernel must not import tenure-engine"]
        );
        assert_eq!(
            messages("tenure-server", &[("tenure-log", Kind::Product)], ""),
            ["tenure-server must not import tenure-log"]
        );
    }

    #[test]
    fn tests_may_import_more_but_no_tools() {
        assert_eq!(messages("tenure-kernel", &[("tenure-log", Kind::Tests)], ""), [""; 0]);
        for tool in ["tenure-sim", "tenure-bench", "tenure-instructions", "tenure-fuzz", "xtask"] {
            let kinds = [Kind::Tests, Kind::Product];
            for kind in kinds {
                assert_eq!(messages("tenure-engine", &[(tool, kind)], "").len(), 1, "{tool}");
                assert_eq!(messages("tenure", &[(tool, kind)], "").len(), 1, "{tool}");
            }
        }
        assert_eq!(messages("tenure-bench", &[("tenure-sim", Kind::Product)], ""), [""; 0]);
        assert_eq!(messages("tenure-fuzz", &[("xtask", Kind::Product)], "").len(), 1);
    }

    #[test]
    fn a_package_without_a_row_is_found() {
        assert_eq!(messages("tenure-core", &[], ""), ["tenure-core has no row in the import table of tidy"]);
    }

    #[test]
    fn outside_crates_are_found_at_any_depth() {
        let below = "tenure-kernel v0.1.0\nsmallvec v1.15.0\nserde v1.0.0 (*)\n";
        let found = messages("tenure-kernel", &[], below);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("tenure-kernel must not contain serde;"));
        assert_eq!(messages("tenure-log", &[], "tokio v1.0.0\n").len(), 1);
        assert_eq!(messages("tenure-api", &[], below), [""; 0]);
    }

    #[test]
    fn an_outside_crate_with_a_short_name_of_ours_is_not_ours() {
        assert_eq!(messages("tenure-api", &[("log", Kind::Product)], "log v0.4.0\n"), [""; 0]);
        assert_eq!(messages("tenure-kernel", &[("log", Kind::Product)], "log v0.4.0\n").len(), 1);
    }

    #[test]
    fn one_package_knows_redis() {
        let import = [("redis", Kind::Tests)];
        assert_eq!(messages("tenure-polling", &import, ""), [""; 0]);
        assert_eq!(
            messages("tenure-server", &import, ""),
            ["tenure-server must not import redis: only tenure-polling knows it"]
        );
    }

    #[test]
    fn planted_bugs_stay_out_of_the_product() {
        let with_feature = |name: &str, kind: Kind| {
            let mut package = package(name, &[("tenure-kernel", kind)], "");
            package.imports[0].features.push("plant".to_owned());
            check_planted(&[package]).len()
        };
        assert_eq!(with_feature("tenure-engine", Kind::Product), 1);
        assert_eq!(with_feature("tenure-engine", Kind::Tests), 0);
        assert_eq!(with_feature("tenure-sim", Kind::Product), 0);
        let mut by_default = package("tenure-log", &[], "");
        assert_eq!(check_planted(std::slice::from_ref(&by_default)).len(), 0);
        by_default.default_features.push("tenure-kernel/plant".to_owned());
        assert_eq!(check_planted(&[by_default]).len(), 1);
    }

    #[test]
    fn the_table_has_no_circle() {
        for row in TABLE {
            let Only(few) = &row.may_import else { continue };
            for other in *few {
                let back = TABLE.iter().find(|row| row.package == *other).unwrap();
                let Only(back) = &back.may_import else {
                    panic!("{other} may import everything");
                };
                assert!(!back.contains(&row.package), "{} and {other}", row.package);
            }
        }
    }
}
