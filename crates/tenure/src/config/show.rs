//! Settings shown: as a file that could be read again, as JSON, and as the page of the reference.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::keys::{KEYS, SECTIONS};
use super::places::{Environment, Places};
use super::{FILE_VARIABLE, Key, Origin, Preset, Settings};
use crate::failure::Failure;
use crate::printer::Printer;

impl Settings {
    /// Each value and where it came from. As text it is a file that gives the same settings.
    pub(crate) fn print(&self, printer: &mut Printer) -> Result<(), Failure> {
        if printer.json() { printer.object(&self.to_json()) } else { printer.text(&self.to_text()) }
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for (section, _) in SECTIONS {
            let _ = writeln!(text, "{}[{section}]", if text.is_empty() { "" } else { "\n" });
            for (key, origin) in self.rows().filter(|(key, _)| key.section == *section) {
                let _ =
                    writeln!(text, "{} = {}  # {}", key.name, (key.shown)(self), self.source(key, origin));
            }
        }
        text
    }

    pub(super) fn to_json(&self) -> Json {
        let mut sections = Map::new();
        for (key, origin) in self.rows() {
            let written: toml::Table = format!("value = {}", (key.shown)(self))
                .parse()
                .expect("invariant: values are written as TOML");
            let value = serde_json::to_value(&written["value"]).expect("invariant: settings fit into JSON");
            let section = sections.entry(key.section).or_insert_with(|| Json::Object(Map::new()));
            section[key.name] = json!({"value": value, "from": self.source(key, origin)});
        }
        Json::Object(sections)
    }

    fn rows(&self) -> impl Iterator<Item = (&'static Key, &Origin)> {
        KEYS.iter().zip(&self.origins)
    }

    fn source(&self, key: &Key, origin: &Origin) -> String {
        match origin {
            Origin::Default => "default".to_owned(),
            Origin::Flag => format!("flag --{}", key.flag),
            Origin::Environment => format!("environment {}", key.variable()),
            Origin::File { line } => {
                let path = self.file.as_deref().unwrap_or(Path::new("file"));
                format!("file {}:{line}", path.display())
            }
        }
    }
}

/// The page of the reference about settings.
pub(crate) fn reference_page(generated: &str) -> String {
    let mut page = format!(
        "{generated}\n\n# Configuration\n\n\
         Settings of `tenure serve` and `tenure install`. Every setting is a flag, an environment variable and a key of the \
         file.\nA flag overrides the environment, the environment overrides the file, the file overrides the default.\n\
         `tenure serve --print-config` prints each setting, its value and its source. The output is a valid configuration \
         file, except\nfor the path of a URL in `sessions.on_end`: it may be a secret, so it is hidden.\n\n\
         - **File**: TOML, from `--config FILE`, else `{FILE_VARIABLE}`, else `/etc/tenure/tenure.toml` as root and\n  \
         `$XDG_CONFIG_HOME/tenure/tenure.toml` for other users. An unknown key is an error that names the nearest known \
         key.\n\
         - **Environment**: `TENURE_SECTION_KEY`, so `limits.leases` is `TENURE_LIMITS_LEASES`. Commas separate the entries \
         of a list.\n  An empty variable counts as not set; an empty `TENURE_SESSIONS_POOLS` creates no pools.\n\
         - **Durations**: `500ms`, `30s`, `1m30s`, `2h`, `7d`. **Sizes**: `64KiB`, `1MiB`, `1GiB`. An empty path disables \
         the\n  setting.\n\
         - **Directories**: under systemd the unit's directories (`StateDirectory=` and so on) replace the defaults. If \
         they are not\n  set, `$XDG_STATE_HOME` is `~/.local/state` and `$XDG_CONFIG_HOME` is `~/.config`.\n\
         - **Former names**: `--log` (now `--store`), `--writer-ttl` and `cluster.writer_ttl` (now `--leader-ttl` and\n  \
         `cluster.leader_ttl`) are still accepted.\n"
    );
    for (section, about) in SECTIONS {
        let _ = write!(page, "\n## `[{section}]`\n\n{}\n\n", about.trim());
        page.push_str("| key | flag | default | meaning |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let _ = writeln!(
                page,
                "| `{}` | `--{}` | {} | {} |",
                key.name,
                key.flag,
                said_default(key).map_or_else(|| default_in_words(key), |(_, default)| default.to_owned()),
                meaning(key)
            );
        }
    }
    page
}

pub(super) fn default_in_words(key: &Key) -> String {
    match key.preset {
        Preset::Text("") => "none".to_owned(),
        Preset::Text(text) => format!("`{text}`"),
        Preset::ByUser { root, others } => format!("`{root}` as root, else `{others}`"),
        Preset::Place(place) => {
            let shown =
                |places: &Places| place(places).map(|path| path.display().to_string()).unwrap_or_default();
            let machine = shown(&Places::of(&Environment::root()));
            format!("`{machine}` as root, else `{}`", shown(&Places::in_words()))
        }
    }
}

/// What its documentation calls the default, where no value in the table is one.
fn said_default(key: &Key) -> Option<(&str, &str)> {
    let (about, default) = key.docs[0].trim().strip_suffix(']')?.split_once(" [default: ")?;
    Some((about, default))
}

fn meaning(key: &Key) -> String {
    // The first paragraph is one line without a full stop; the others are sentences over several lines.
    let about = said_default(key).map_or_else(|| key.docs[0].trim(), |(about, _)| about);
    let mut meaning = format!("{about}.");
    for line in key.docs[1..].iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        let _ = write!(meaning, " {line}");
    }
    meaning = meaning.replace('|', "\\|");
    if !key.choices.is_empty() {
        let choices: Vec<String> = key.choices.iter().map(|choice| format!("`{choice}`")).collect();
        let _ = write!(meaning, " One of {}.", choices.join(", "));
    }
    if let Some((least, greatest)) = key.range {
        let _ = write!(meaning, " From `{least}` to `{greatest}`.");
    }
    meaning
}
