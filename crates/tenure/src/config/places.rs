//! Where things are by default, and the environment that decides it. Root's daemon is the machine's; everybody
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

/// Where things are by default; `None`: the environment does not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    pub(crate) data: Option<PathBuf>,
    pub(crate) run: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
}

const SOCKET: &str = "tenure.sock";
const CONFIG: &str = "tenure.toml";
const TOKENS: &str = "tokens";
/// What systemd tells a service about the directories it was given; several are separated by colons.
const SERVICE_DATA: &str = "STATE_DIRECTORY";
const SERVICE_RUN: &str = "RUNTIME_DIRECTORY";
const SERVICE_CONFIG: &str = "CONFIGURATION_DIRECTORY";
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

    /// That of an installed service, whose settings are in a directory.
    pub(crate) fn of_service(settings: &Path) -> Self {
        let variables = [
            (SERVICE_DATA, MACHINE_DATA.to_owned()),
            (SERVICE_RUN, MACHINE_RUN.to_owned()),
            (SERVICE_CONFIG, settings.display().to_string()),
        ];
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { variables, is_root: false }
    }

    /// Where tokens are kept if the settings do not say.
    pub(crate) fn usual_token_file(&self) -> Option<PathBuf> {
        Some(Places::of(self).config?.with_file_name(TOKENS))
    }

    /// The run-time directory of this user.
    pub(crate) fn run_dir(&self) -> Option<PathBuf> {
        Places::of(self).run
    }

    #[cfg(test)]
    pub(crate) fn of(variables: &[(&str, &str)], is_root: bool) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self { variables: variables.iter().map(owned).collect(), is_root }
    }

    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// A variable; an empty one is as good as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether there is such a variable, empty or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// The first directory that a service was given for something.
    fn given(&self, name: &str) -> Option<PathBuf> {
        self.get(name).and_then(|list| list.split(':').next()).map(PathBuf::from)
    }

    /// A variable that names a section but no key of it is a slip of the finger.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let known: Vec<String> = KEYS
            .iter()
            .map(super::Key::variable)
            .chain(KEYS.iter().filter_map(super::Key::former_variable))
            .collect();
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

/// Where the socket of a daemon is unless its settings say otherwise: the caller's own, then the machine's.
pub(crate) fn usual_sockets() -> Vec<PathBuf> {
    let environment = Environment::of_process();
    let each = [Places::of(&environment), Places::of_machine(&environment)];
    let mut sockets: Vec<PathBuf> = each.iter().filter_map(Places::socket).collect();
    sockets.dedup();
    sockets
}

impl Places {
    pub(super) fn of(environment: &Environment) -> Self {
        let usual =
            if environment.is_root { Self::of_machine(environment) } else { Self::of_user(environment) };
        Self {
            data: environment.given(SERVICE_DATA).or(usual.data),
            run: environment.given(SERVICE_RUN).or(usual.run),
            config: environment
                .given(SERVICE_CONFIG)
                .map(|directory| directory.join(CONFIG))
                .or(usual.config),
        }
    }

    fn of_machine(environment: &Environment) -> Self {
        Self {
            data: Some(MACHINE_DATA.into()),
            run: environment.path(MACHINE_RUN_VARIABLE).or(Some(MACHINE_RUN.into())),
            config: Some(Path::new(MACHINE_CONFIG).join(CONFIG)),
        }
    }

    fn of_user(environment: &Environment) -> Self {
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
