//! The scripts that Redis runs: each one step, and each checks who holds what it touches.

use redis::Script;
use std::sync::LazyLock;

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: LazyLock<Lua> =
            LazyLock::new(|| Lua::new(concat!(include_str!("prelude.lua"), include_str!($file))));
    };
}

script!(JOIN, "join.lua");
script!(RENEW, "renew.lua");
script!(OBSERVE, "observe.lua");
script!(ACQUIRE, "acquire.lua");
script!(RELEASE, "release.lua");
script!(HAND_OVER, "hand_over.lua");
script!(LEAVE, "leave.lua");
script!(TELL, "tell.lua");
script!(STEER, "steer.lua");

/// A script and what Redis knows it by.
pub(super) struct Lua {
    pub(super) source: &'static str,
    pub(super) sha: String,
}

impl Lua {
    fn new(source: &'static str) -> Self {
        Self { source, sha: Script::new(source).get_hash().to_owned() }
    }
}
