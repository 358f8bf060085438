//! Arguments that several commands take.

use std::str::FromStr;

use serde_json::Value;

/// So many members of a pool: `gpu=2`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PoolCount {
    pub(crate) name: String,
    pub(crate) count: u32,
}

/// Why a text is no number of members.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("members of a pool are asked for like gpu=2")]
pub(crate) struct ParsePoolCountError;

impl FromStr for PoolCount {
    type Err = ParsePoolCountError;

    fn from_str(text: &str) -> Result<Self, ParsePoolCountError> {
        let (name, count) = text.rsplit_once('=').ok_or(ParsePoolCountError)?;
        match count.parse() {
            Ok(count) if count > 0 && !name.is_empty() => Ok(Self { name: name.to_owned(), count }),
            _ => Err(ParsePoolCountError),
        }
    }
}

/// Any JSON.
pub(crate) fn json_value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("not JSON: {error}; a text needs its quotes, as in '\"x\"'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_pool_are_a_name_and_a_number() {
        let parsed = "rack=1/gpu=2".parse::<PoolCount>();
        assert_eq!(parsed, Ok(PoolCount { name: "rack=1/gpu".into(), count: 2 }));
        for text in ["", "gpu", "gpu=", "=2", "gpu=0", "gpu=-1", "gpu=x"] {
            assert_eq!(text.parse::<PoolCount>(), Err(ParsePoolCountError), "{text:?}");
        }
    }
}
