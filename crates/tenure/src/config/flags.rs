//! The flags of `tenure serve`, made from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::keys::KEYS;
use super::show::default_in_words;
use super::{FILE_VARIABLE, Key, Preset, Shape};

/// Flags that were given, as text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flags {
    /// The file.
    pub(crate) config: Option<PathBuf>,
    /// By key; lists with commas.
    given: BTreeMap<&'static str, String>,
}

const CONFIG: &str = "config";
/// The settings that help shows; the page of the reference shows all.
const EVERYDAY: &[&str] = &[
    "server.bind",
    "server.port",
    "server.data_dir",
    "server.socket",
    "server.tls_cert",
    "server.tls_key",
    "server.server_name",
    "auth.token_file",
    "auth.insecure_no_auth",
    "cluster.store",
    "cluster.advertise",
    "cluster.node",
    "log.level",
];
/// Refers from help to the settings that it does not show.
pub(crate) const MORE_SETTINGS: &str = "More settings: every setting of the configuration reference \
(docs/reference/configuration.md) is also a flag and an environment variable. `tenure serve --print-config` prints each \
setting, its value and its source.";
/// The other way of saying that a setting is off.
const NO_MDNS: &str = "no_mdns";
const MDNS_ENABLED: &str = "mdns.enabled";

impl Flags {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(String::as_str)
    }

    /// Gives a flag its value.
    #[cfg(test)]
    pub(super) fn set(&mut self, path: &str, text: impl Into<String>) {
        let key =
            KEYS.iter().find(|key| key.path == path).expect("invariant: callers name keys of the table");
        self.given.insert(key.path, text.into());
    }

    /// The flags as they would be written on a command line.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(path) = &self.config {
            arguments.push(format!("--{CONFIG}={}", path.display()));
        }
        for key in KEYS {
            let Some(text) = self.get(key.path) else { continue };
            match key.shape {
                Shape::Word | Shape::Switch => arguments.push(format!("--{}={text}", key.flag)),
                Shape::List | Shape::Table => {
                    arguments.extend(text.split(',').map(|word| format!("--{}={word}", key.flag)));
                }
            }
        }
        arguments
    }

    /// These, and where one is not given the other's.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.config = self.config.or(other.config);
        for (key, text) in other.given {
            self.given.entry(key).or_insert(text);
        }
        self
    }

    /// Reads what [`Flags::to_arguments`] wrote.
    pub(crate) fn from_arguments(arguments: &[String]) -> Result<Self, clap::Error> {
        let command = <Self as clap::Args>::augment_args(Command::new("flags").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments)?;
        <Self as clap::FromArgMatches>::from_arg_matches(&matches)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        if let Some(path) = matches.get_one::<PathBuf>(CONFIG) {
            self.config = Some(path.clone());
        }
        for key in KEYS {
            let is_given = matches.value_source(key.path) == Some(ValueSource::CommandLine);
            if let Some(words) = matches.get_many::<String>(key.path).filter(|_| is_given) {
                let words: Vec<&str> = words.map(String::as_str).collect();
                self.given.insert(key.path, words.join(","));
            }
        }
        if matches.get_flag(NO_MDNS) {
            self.given.insert(MDNS_ENABLED, "false".to_owned());
        }
        Ok(())
    }
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new(CONFIG)
            .long(CONFIG)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read settings from this TOML file")
            .long_help(format!(
                "Read settings from this TOML file\n\n\
                 A flag overrides the environment, the environment overrides the file.\n\n\
                 [default: /etc/tenure/tenure.toml as root, else $XDG_CONFIG_HOME/tenure/tenure.toml] [env: {FILE_VARIABLE}]"
            ));
        let no_mdns = Arg::new(NO_MDNS)
            .long("no-mdns")
            .action(ArgAction::SetTrue)
            .conflicts_with(MDNS_ENABLED)
            .help_heading(heading("mdns"))
            .help("Do not advertise services by mDNS");
        KEYS.iter().fold(command.arg(config).arg(no_mdns), |command, key| command.arg(argument(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(key: &'static Key) -> Arg {
    let argument = Arg::new(key.path)
        .long(key.flag)
        .value_name(key.placeholder)
        .value_parser(parser(key))
        .help(key.docs[0].trim())
        .long_help(long_help(key))
        .help_heading(heading(key.section))
        .hide_short_help(!EVERYDAY.contains(&key.path))
        .hide_long_help(!EVERYDAY.contains(&key.path));
    let argument = match key.former_flag() {
        Some(former) => argument.alias(former),
        None => argument,
    };
    // Shown in help; [`Flags`] holds only what was given.
    let argument = match key.preset {
        Preset::Text(text) if !text.is_empty() && key.shape != Shape::Switch => argument.default_value(text),
        Preset::Text(_) | Preset::ByUser { .. } | Preset::Place(_) => argument,
    };
    match key.shape {
        Shape::Word => argument,
        Shape::List | Shape::Table => argument.action(ArgAction::Append),
        Shape::Switch => argument.num_args(0..=1).require_equals(true).default_missing_value("true"),
    }
}

fn parser(key: &'static Key) -> ValueParser {
    if !key.choices.is_empty() {
        return PossibleValuesParser::new(key.choices).into();
    }
    ValueParser::new(move |text: &str| (key.check)(text).map(|()| text.to_owned()))
}

fn heading(section: &'static str) -> &'static str {
    match section {
        "server" => "Addresses and data",
        "auth" => "Authentication",
        "limits" => "Limits",
        "breaker" => "Mass-expiry protection",
        "history" => "History",
        "log" => "Log",
        "mdns" => "mDNS",
        "sessions" => "Slot sessions",
        "cluster" => "Cluster",
        other => other,
    }
}

fn long_help(key: &Key) -> String {
    let mut paragraphs = vec![key.docs[0].trim().to_owned()];
    let more: Vec<&str> =
        key.docs[1..].iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    if !more.is_empty() {
        paragraphs.push(more.join(" "));
    }
    let mut facts = format!("[key: {}] [env: {}]", key.path, key.variable());
    match key.preset {
        Preset::Text(_) => {}
        Preset::Place(_) => {
            facts.push_str(&format!(" [default: {}]", default_in_words(key).replace('`', "")))
        }
        Preset::ByUser { root, others } => {
            facts.push_str(&format!(" [default: {root} as root, else {others}]"));
        }
    }
    if let Some((least, greatest)) = key.range {
        facts.push_str(&format!(" [range: {least} to {greatest}]"));
    }
    paragraphs.push(facts);
    paragraphs.join("\n\n")
}
