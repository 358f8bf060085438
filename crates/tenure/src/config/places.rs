//! Where things are unless told, and the environment that decides it. Root's daemon is the machine's; everybody
//! else's is their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::keys::{KEYS, SECTIONS};
use super::{ConfigError, VARIABLE_PREFIX, nearest};

/// The environment of a process, as far as settings depend on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    is_root: bool,
}

/// Where things are unless told; `None`: the environment does not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    pub(crate) data: Option<PathBuf>,
    pub(crate) run: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
}

const SOCKET: &str = "tenure.sock";
const CONFIG: &str = "tenure.toml";
/// Where the machine's own daemon has its configuration.
pub(crate) const MACHINE_CONFIG: &str = "/etc/tenure";
pub(crate) const MACHINE_DATA: &str = "/var/lib/tenure";
pub(crate) const MACHINE_RUN: &str = "/run/tenure";
/// Stands in for the machine's run-time directory, for daemons and for those who look for one.
const MACHINE_RUN_VARIABLE: &str = "TENURE_RUN_DIR";

impl Environment {
    /// Of this process. What is not Unicode is no setting.
    pub(crate) fn of_process() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { variables, is_root: rustix::process::geteuid().is_root() }
    }

    /// That of the machine's own daemon, for pages about it.
    pub(super) fn root() -> Self {
        Self { variables: BTreeMap::new(), is_root: true }
    }

    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)], is_root: bool) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { variables: variables.iter().map(owned).collect(), is_root }
    }

    /// A variable; an empty one is as good as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// A variable that names a section but no key of it is a slip of the finger.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let known: Vec<String> = KEYS.iter().map(super::Key::variable).collect();
        for name in self.variables.keys() {
            let names_section = SECTIONS.iter().any(|(section, _)| {
                let section = format!("{VARIABLE_PREFIX}{}_", section.to_ascii_uppercase());
                name.starts_with(&section)
            });
            if names_section && !known.contains(name) {
                let nearest = nearest(name, known.iter().map(String::as_str)).to_owned();
                return Err(ConfigError::UnknownVariable { name: name.clone(), nearest });
            }
        }
        Ok(())
    }
}

impl Places {
    pub(super) fn of(environment: &Environment) -> Self {
        if environment.is_root {
            return Self {
                data: Some(MACHINE_DATA.into()),
                run: environment.path(MACHINE_RUN_VARIABLE).or(Some(MACHINE_RUN.into())),
                config: Some(Path::new(MACHINE_CONFIG).join(CONFIG)),
            };
        }
        let home = |below: &str| environment.path("HOME").map(|home| home.join(below));
        let ours = |base: PathBuf| base.join("tenure");
        Self {
            data: environment.path("XDG_STATE_HOME").or_else(|| home(".local/state")).map(ours),
            run: environment.path("XDG_RUNTIME_DIR").map(ours),
            config: environment
                .path("XDG_CONFIG_HOME")
                .or_else(|| home(".config"))
                .map(|base| ours(base).join(CONFIG)),
        }
    }

    /// Beside the breadcrumb; where there is none, with the data.
    pub(super) fn socket(&self) -> Option<PathBuf> {
        self.run.as_ref().or(self.data.as_ref()).map(|directory| directory.join(SOCKET))
    }

    /// For pages about people's own daemons.
    pub(super) fn in_words() -> Self {
        Self {
            data: Some("$XDG_STATE_HOME/tenure".into()),
            run: Some("$XDG_RUNTIME_DIR/tenure".into()),
            config: Some("$XDG_CONFIG_HOME/tenure/tenure.toml".into()),
        }
    }
}
