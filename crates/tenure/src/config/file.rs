//! The file: TOML with sections, read into text and lines. Unknown keys are errors that name the nearest known one.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, SECTIONS};
use super::{ConfigError, Shape, nearest};

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct FileSettings {
    /// `None`: there is no file.
    pub(super) path: Option<PathBuf>,
    /// By key: text and line.
    values: BTreeMap<&'static str, (String, usize)>,
}

impl FileSettings {
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// The usual place need not be in use.
    pub(super) fn read_if_there(path: &Path) -> Result<Self, ConfigError> {
        match Self::read(path) {
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            read => read,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<(&str, usize)> {
        self.values.get(key).map(|(text, line)| (text.as_str(), *line))
    }

    /// How an error names a place in the file.
    pub(super) fn place(&self, line: usize, key: &str) -> String {
        let path = self.path.as_deref().unwrap_or(Path::new("the configuration"));
        format!("{}:{line}: {key}", path.display())
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let line = |span: Range<usize>| text[..span.start.min(text.len())].matches('\n').count() + 1;
        let place = |span| format!("{}:{}", path.display(), line(span));
        let document = DeTable::parse(text).map_err(|error| ConfigError::Malformed {
            place: error.span().map_or_else(|| path.display().to_string(), place),
            problem: error.message().replace('\n', ", "),
        })?;
        let mut values = BTreeMap::new();
        for (section, value) in document.get_ref() {
            let name = section.get_ref().as_ref();
            let is_known = SECTIONS.iter().any(|(known, _)| *known == name);
            let Some(table) = value.get_ref().as_table().filter(|_| is_known) else {
                return Err(unknown(place(section.span()), name));
            };
            for (key, value) in table {
                let full = format!("{name}.{}", key.get_ref());
                let is_known = |known: &&super::Key| known.path == full || known.former_path() == Some(&full);
                let Some(known) = KEYS.iter().find(is_known) else {
                    return Err(unknown(place(key.span()), &full));
                };
                if values.contains_key(known.path) {
                    return Err(ConfigError::Malformed {
                        place: place(key.span()),
                        problem: format!(
                            "{} is set twice: {full} is its former name or its new one",
                            known.path
                        ),
                    });
                }
                let text = as_text(value.get_ref(), known.shape).ok_or_else(|| ConfigError::Malformed {
                    place: place(value.span()),
                    problem: format!("{full} cannot be {}", kind(value.get_ref(), known.shape)),
                })?;
                values.insert(known.path, (text, line(value.span())));
            }
        }
        Ok(Self { path: Some(path.to_owned()), values })
    }
}

/// A key at the top is compared with the last parts of keys too: the section may be what is missing.
fn unknown(place: String, key: &str) -> ConfigError {
    let by_name = KEYS.iter().find(|known| known.name == key).map(|known| known.path);
    let section = SECTIONS.iter().find(|(known, _)| *known == key).map(|(known, _)| *known);
    let nearest = match (section, by_name) {
        (Some(section), _) => format!("the section [{section}]"),
        (None, Some(path)) => path.to_owned(),
        (None, None) if key.contains('.') => nearest(key, KEYS.iter().map(|known| known.path)).to_owned(),
        (None, None) => {
            let names = SECTIONS.iter().map(|(known, _)| *known).chain(KEYS.iter().map(|known| known.name));
            let name = nearest(key, names);
            match KEYS.iter().find(|known| known.name == name) {
                Some(known) => known.path.to_owned(),
                None => format!("the section [{name}]"),
            }
        }
    };
    ConfigError::UnknownKey { place, key: key.to_owned(), nearest }
}

/// A value as it would be given in a flag.
fn as_text(value: &DeValue<'_>, shape: Shape) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Array(values) => {
            let words: Option<Vec<&str>> = values.iter().map(|value| value.get_ref().as_str()).collect();
            Some(words?.join(","))
        }
        DeValue::Table(rows) if shape == Shape::Table => {
            let words: Option<Vec<String>> =
                rows.iter().map(|(name, value)| row(name.get_ref(), value.get_ref())).collect();
            Some(words?.join(","))
        }
        DeValue::Integer(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn row(name: &str, value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::Integer(number) if number.radix() == 10 => Some(format!("{name}={}", number.as_str())),
        _ => None,
    }
}

fn kind(value: &DeValue<'_>, shape: Shape) -> String {
    match value {
        DeValue::Table(_) if shape == Shape::Table => "a table of values that are not numbers".to_owned(),
        DeValue::Array(_) => "a list of values that are not text".to_owned(),
        DeValue::Integer(_) => "a number that is not decimal".to_owned(),
        other => format!("a {}", other.type_str()),
    }
}
