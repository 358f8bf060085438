//! Known bugs that can be planted, by name. A simulator that cannot find them proves nothing.

/// A bug to plant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// In the rules, in liveness or in the engine.
    Rules(tenure_kernel::planted::Planted),
    /// In the log.
    Log(tenure_log::planted::Planted),
}

impl Plant {
    /// Every one there is.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rules = tenure_kernel::planted::Planted::ALL.into_iter().map(Self::Rules);
        rules.chain(tenure_log::planted::Planted::ALL.into_iter().map(Self::Log)).collect()
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|plant| plant.name() == name)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rules(planted) => planted.name(),
            Self::Log(planted) => planted.name(),
        }
    }

    /// Plants it in this thread, or takes every plant away.
    pub fn plant(plant: Option<Self>) {
        let (rules, log) = match plant {
            Some(Self::Rules(planted)) => (Some(planted), None),
            Some(Self::Log(planted)) => (None, Some(planted)),
            None => (None, None),
        };
        tenure_kernel::planted::plant(rules);
        tenure_log::planted::plant(log);
    }
}
