//! The flags of `tenure serve`, made from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::keys::KEYS;
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
            if let Some(words) = matches.get_many::<String>(key.path) {
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
            .help("File with settings, in TOML")
            .long_help(format!(
                "File with settings, in TOML\n\n\
                 Flags count more than the environment, the environment more than the file. Unless told here or in \
                 {FILE_VARIABLE}: /etc/tenure/tenure.toml as root, else $XDG_CONFIG_HOME/tenure/tenure.toml, if it \
                 is there."
            ));
        let no_mdns = Arg::new(NO_MDNS)
            .long("no-mdns")
            .action(ArgAction::SetTrue)
            .conflicts_with(MDNS_ENABLED)
            .help_heading(heading("mdns"))
            .help("Advertise nothing on the network");
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
        // The first screen is for what is set most.
        .hide_short_help(!matches!(key.section, "server" | "auth"));
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
        "server" => "Where",
        "auth" => "Who may do what",
        "limits" => "Limits",
        "breaker" => "Breaker",
        "history" => "History",
        "log" => "Log",
        "sessions" => "Sessions",
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
    let mut facts = format!("Key {}, environment {}", key.path, key.variable());
    match key.preset {
        Preset::Text("") | Preset::Place(_) => {}
        Preset::Text(text) => facts.push_str(&format!("; default {text}")),
        Preset::ByUser { root, others } => {
            facts.push_str(&format!("; default {root} as root, else {others}"));
        }
    }
    if let Some((least, greatest)) = key.range {
        facts.push_str(&format!("; from {least} to {greatest}"));
    }
    paragraphs.push(facts);
    paragraphs.join("\n\n")
}
