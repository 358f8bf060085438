//! Known bugs that can be planted, by name. A simulator that cannot find them proves nothing.

/// A bug to plant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// In the rules, in liveness or in the engine.
    Rules(tenure_kernel::planted::Planted),
    /// In the log.
    Log(tenure_log::planted::Planted),
    /// In what makes one log of several machines.
    Cluster(tenure_cluster::planted::Planted),
}

impl Plant {
    /// Every one there is.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rules = tenure_kernel::planted::Planted::ALL.into_iter().map(Self::Rules);
        let log = tenure_log::planted::Planted::ALL.into_iter().map(Self::Log);
        let cluster = tenure_cluster::planted::Planted::ALL.into_iter().map(Self::Cluster);
        rules.chain(log).chain(cluster).collect()
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
            Self::Cluster(planted) => planted.name(),
        }
    }

    /// Whether it shows with several nodes only.
    #[must_use]
    pub fn needs_cluster(self) -> bool {
        match self {
            Self::Rules(planted) => planted.needs_nodes(),
            Self::Log(_) => false,
            Self::Cluster(_) => true,
        }
    }

    /// Whether it shows where a store is put back to a backup only.
    #[must_use]
    pub fn needs_restores(self) -> bool {
        matches!(self, Self::Cluster(planted) if planted.needs_restores())
    }

    /// Plants it in this thread, or takes every plant away.
    pub fn plant(plant: Option<Self>) {
        let (rules, log, cluster) = match plant {
            Some(Self::Rules(planted)) => (Some(planted), None, None),
            Some(Self::Log(planted)) => (None, Some(planted), None),
            Some(Self::Cluster(planted)) => (None, None, Some(planted)),
            None => (None, None, None),
        };
        tenure_kernel::planted::plant(rules);
        tenure_log::planted::plant(log);
        tenure_cluster::planted::plant(cluster);
    }
}
