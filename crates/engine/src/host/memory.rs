//! How much memory the process takes while a snapshot is built beside the state. Measured: what a copy of the state takes
//! is for the allocator to say.

/// What is resident of this process; `None` where the system does not say.
#[must_use]
pub fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib.saturating_mul(1 << 10))
}

/// Bytes that are free for the daemon in a directory; `None` where the system does not say.
#[must_use]
pub fn free_bytes(directory: &std::path::Path) -> Option<u64> {
    tenure_log::Disk::free_bytes(&tenure_log::RealDisk, directory).ok()
}

/// What building snapshots took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SnapshotMemory {
    last: Option<Built>,
    /// A snapshot is being built, and so much was resident when that began.
    begun: Option<u64>,
}

/// Resident while a snapshot was built, at most, and once it was.
#[derive(Clone, Copy, Debug)]
struct Built {
    at_most: u64,
    after: u64,
}

impl SnapshotMemory {
    pub(crate) fn begin(&mut self, resident: Option<u64>) {
        self.begun = resident;
    }

    pub(crate) fn end(&mut self, at_most: Option<u64>, after: Option<u64>) {
        self.begun = None;
        if let (Some(at_most), Some(after)) = (at_most, after) {
            self.last = Some(Built { at_most: at_most.max(after), after });
        }
    }

    /// What will be resident at most while the next one is built. What came since the last stands in the state and will
    /// stand in its copy; what one that is being built has taken already is not counted again.
    pub(crate) fn with_snapshot(self, resident: u64) -> Option<u64> {
        let Built { at_most, after } = self.last?;
        let grown = self.begun.unwrap_or(resident).saturating_sub(after);
        Some(at_most.saturating_add(grown.saturating_mul(2)).max(resident))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_snapshot_takes_is_known_after_the_first_and_grows_twice_as_fast_as_the_state() {
        let mut memory = SnapshotMemory::default();
        assert_eq!(memory.with_snapshot(100), None);
        memory.begin(Some(100));
        assert_eq!(memory.with_snapshot(150), None);
        memory.end(Some(180), Some(110));
        for (resident, expected) in [(110, 180), (120, 200), (90, 180), (400, 760)] {
            assert_eq!(memory.with_snapshot(resident), Some(expected), "{resident}");
        }
    }

    #[test]
    fn what_is_being_built_is_not_counted_twice() {
        let mut memory = SnapshotMemory::default();
        memory.end(Some(180), Some(100));
        memory.begin(Some(110));
        for (resident, expected) in [(110, 200), (150, 200), (200, 200), (230, 230)] {
            assert_eq!(memory.with_snapshot(resident), Some(expected), "{resident}");
        }
        memory.end(Some(230), Some(112));
        assert_eq!(memory.with_snapshot(112), Some(230));
    }

    #[test]
    fn where_the_system_does_not_say_nothing_is_said() {
        let mut memory = SnapshotMemory::default();
        memory.begin(None);
        memory.end(None, None);
        assert_eq!(memory.with_snapshot(0), None);
    }
}
