//! Settings of the daemon: flag, then environment, then file, then default.
//!
//! Declared once, in `config/keys.rs`: flags, names in the environment, keys of the file, the printed configuration
//! and the page of the reference all come from that table. Nothing here knows what a setting does.

mod error;
mod file;
mod flags;
mod keys;
mod parts;
mod places;
mod show;
mod value;

pub(crate) use error::ConfigError;
pub(crate) use flags::{Flags, MORE_SETTINGS};
pub(crate) use keys::Settings;
pub(crate) use places::{Environment, MACHINE_CONFIG, MACHINE_DATA, MACHINE_RUN, usual_sockets};
pub(crate) use show::reference_page;
pub(crate) use value::{EtcdAddress, store_address};

use std::path::PathBuf;

use file::FileSettings;
use keys::KEYS;
use places::Places;
use value::{SlotReuse, Value};

/// One setting, as the table declares it.
pub(crate) struct Key {
    /// `section.name`.
    pub(crate) path: &'static str,
    pub(crate) section: &'static str,
    pub(crate) name: &'static str,
    /// Without its dashes.
    pub(crate) flag: &'static str,
    /// What it is for: first a line, then more.
    pub(crate) docs: &'static [&'static str],
    pub(crate) preset: Preset,
    /// Least and greatest value.
    pub(crate) range: Option<(&'static str, &'static str)>,
    /// A value that is not the default.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests set every key to it"))]
    pub(crate) example: &'static str,
    pub(crate) shape: Shape,
    /// Stands for the value in help.
    pub(crate) placeholder: &'static str,
    /// All values, where there are few.
    pub(crate) choices: &'static [&'static str],
    /// Whether a text is a value, or why not.
    pub(crate) check: fn(&str) -> Result<(), String>,
    /// The value as it is written in the file.
    pub(crate) shown: fn(&Settings) -> String,
}

/// The value of a setting that was not given.
#[derive(Clone, Copy)]
pub(crate) enum Preset {
    /// The same everywhere.
    Text(&'static str),
    /// One for root's daemon, one for that of every other user.
    ByUser { root: &'static str, others: &'static str },
    /// Depends on who runs the daemon; `None`: there is nowhere it could be.
    Place(fn(&Places) -> Option<PathBuf>),
}

/// How a value is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// One word.
    Word,
    /// Any number of words.
    List,
    /// Given alone it means `true`.
    Switch,
    /// Any number of names, each with a number.
    Table,
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Default,
    File { line: usize },
    Environment,
    Flag,
}

/// Everything that was given, as text.
struct Given<'a> {
    flags: &'a Flags,
    environment: &'a Environment,
    file: FileSettings,
    places: Places,
}

/// A former name of a setting, still accepted.
struct Former {
    /// The setting's path today.
    path: &'static str,
    flag: &'static str,
    /// Its former path in the file and the environment, where that changed too.
    key: Option<&'static str>,
}

const FORMER: &[Former] = &[
    Former { path: "cluster.store", flag: "log", key: None },
    Former { path: "cluster.leader_ttl", flag: "writer-ttl", key: Some("cluster.writer_ttl") },
];

impl Key {
    /// Its name in the environment: `TENURE_SECTION_NAME`.
    pub(crate) fn variable(&self) -> String {
        variable(self.path)
    }

    fn former(&self) -> Option<&'static Former> {
        FORMER.iter().find(|former| former.path == self.path)
    }

    /// Its former flag.
    fn former_flag(&self) -> Option<&'static str> {
        self.former().map(|former| former.flag)
    }

    /// Its former path.
    fn former_path(&self) -> Option<&'static str> {
        self.former().and_then(|former| former.key)
    }

    /// Its former name in the environment.
    fn former_variable(&self) -> Option<String> {
        self.former_path().map(variable)
    }
}

fn variable(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

const VARIABLE_PREFIX: &str = "TENURE_";
/// Where the file is, unless a flag says so.
const FILE_VARIABLE: &str = "TENURE_CONFIG";

impl Settings {
    /// Reads the settings.
    pub(crate) fn load(flags: &Flags, environment: &Environment) -> Result<Self, ConfigError> {
        let given = Given::gather(flags, environment)?;
        let settings = Self::read(&given)?;
        settings.check()?;
        Ok(settings)
    }

    /// Settings that need each other.
    fn check(&self) -> Result<(), ConfigError> {
        let server = &self.server;
        let given = [
            ("server.tls_cert", server.tls_cert.is_some(), "server.tls_key", server.tls_key.is_some()),
            ("server.tls_key", server.tls_key.is_some(), "server.tls_cert", server.tls_cert.is_some()),
            ("server.client_ca", server.client_ca.is_some(), "server.tls_cert", server.tls_cert.is_some()),
            (
                "server.client_crl",
                server.client_crl.is_some(),
                "server.client_ca",
                server.client_ca.is_some(),
            ),
            (
                "auth.cert_scope_file",
                self.auth.cert_scope_file.is_some(),
                "server.client_ca",
                server.client_ca.is_some(),
            ),
        ];
        match given.into_iter().find(|(_, given, _, other_given)| *given && !other_given) {
            Some((key, _, other, _)) => Err(ConfigError::Incomplete { key, other }),
            None => self.check_sessions(),
        }
    }

    fn check_sessions(&self) -> Result<(), ConfigError> {
        let sessions = &self.sessions;
        let refused = |words| Err(ConfigError::Together { words });
        let two_beats_ms = sessions.heartbeat_interval.saturating_mul(2_000);
        if two_beats_ms > sessions.lease_ttl.ms() {
            return refused(format!(
                "sessions.heartbeat_interval is {} s and sessions.lease_ttl is {}: the ttl must be at least two \
                 intervals, or one lost packet ends a session",
                sessions.heartbeat_interval, sessions.lease_ttl
            ));
        }
        if sessions.reuse == SlotReuse::AfterHook && sessions.on_end.0.is_empty() {
            return refused(
                "sessions.reuse is after_hook, but sessions.on_end sets no hook to wait for".to_owned(),
            );
        }
        let hook = self.hook_plan();
        if sessions.on_end_ca.is_some() && !hook.is_https() {
            return refused("sessions.on_end_ca is set, but sessions.on_end is not an https URL".to_owned());
        }
        if sessions.on_end_secret_file.is_some() && !hook.is_webhook() {
            return refused(
                "sessions.on_end_secret_file is set, but sessions.on_end is not a URL".to_owned(),
            );
        }
        if sessions.pools.0.len() as u64 > self.limits.pools {
            return refused(format!(
                "sessions.pools names {} pools, but limits.pools allows {}",
                sessions.pools.0.len(),
                self.limits.pools
            ));
        }
        Ok(())
    }
}

impl<'a> Given<'a> {
    fn gather(flags: &'a Flags, environment: &'a Environment) -> Result<Self, ConfigError> {
        environment.check()?;
        let mut places = Places::of(environment);
        let told = flags.config.clone().or_else(|| environment.get(FILE_VARIABLE).map(PathBuf::from));
        let file = match told {
            Some(path) => FileSettings::read(&path)?,
            None => match &places.config {
                Some(path) => FileSettings::read_if_there(path)?,
                None => FileSettings::default(),
            },
        };
        let mut given = Self { flags, environment, file, places: places.clone() };
        // By default the socket is beside the breadcrumb, wherever that was put.
        for (place, path) in [(&mut places.run, "server.run_dir"), (&mut places.data, "server.data_dir")] {
            let key = KEYS.iter().find(|key| key.path == path).expect("invariant: the table has it");
            if let Some((text, _)) = given.find(key) {
                *place = Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
            }
        }
        given.places = places;
        Ok(given)
    }

    /// What was given for a key, and where.
    fn find(&self, key: &Key) -> Option<(String, Origin)> {
        if let Some(text) = self.flags.get(key.path) {
            return Some((text.to_owned(), Origin::Flag));
        }
        let former = || key.former_variable().and_then(|name| self.environment.get(&name));
        let variable = self.environment.get(&key.variable()).or_else(former).or_else(|| {
            // Otherwise nobody could say in the environment that there are to be none.
            let is_empty = key.shape == Shape::Table && self.environment.has(&key.variable());
            is_empty.then_some("")
        });
        if let Some(text) = variable {
            return Some((text.to_owned(), Origin::Environment));
        }
        self.file.get(key.path).map(|(text, line)| (text.to_owned(), Origin::File { line }))
    }

    /// A key's value, from where it counts most.
    fn value<T: Value>(&self, key: &'static Key) -> Result<(T, Origin), ConfigError> {
        let (text, origin) = match (self.find(key), key.preset) {
            (Some(found), _) => found,
            (None, Preset::Text(text)) => (text.to_owned(), Origin::Default),
            (None, Preset::ByUser { root, others }) => {
                let text = if self.environment.is_root() { root } else { others };
                (text.to_owned(), Origin::Default)
            }
            (None, Preset::Place(place)) => {
                let path = place(&self.places).map(|path| path.display().to_string());
                (path.unwrap_or_default(), Origin::Default)
            }
        };
        if origin == Origin::Default && text.is_empty() && T::parse("").is_err() {
            return Err(ConfigError::NoPlace { key });
        }
        match value::parse_within(&text, key.range) {
            Ok(value) => Ok((value, origin)),
            Err(problem) => {
                let (place, text) = (self.place(key, &origin), T::repeated(&text));
                Err(ConfigError::Invalid { place, text, problem })
            }
        }
    }

    /// How an error names the place that a value came from.
    fn place(&self, key: &Key, origin: &Origin) -> String {
        match origin {
            Origin::Flag => format!("--{}", key.flag),
            Origin::Environment => key.variable(),
            Origin::File { line } => self.file.place(*line, key.path),
            Origin::Default => format!("the default of {}", key.path),
        }
    }
}

/// The known one of several that is most like a word.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> &'a str {
    let mut best = ("", -1.0);
    for candidate in known {
        let likeness = strsim::normalized_damerau_levenshtein(word, candidate);
        if likeness > best.1 {
            best = (candidate, likeness);
        }
    }
    best.0
}

#[cfg(test)]
mod tests;
