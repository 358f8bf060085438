//! Every bound of the kernel, in one place. Fixed ones are constants; those an operator may move are
//! [`Limits`] (read only by `decide`) or [`Retention`] (read by `evolve`, hence itself in the log).

use crate::rejection::Capacity;

/// Longest resource or pool name in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest holder in bytes.
pub const HOLDER_BYTES_MAX: usize = 128;
/// Most resources in one bundle, pool members included.
pub const BUNDLE_MEMBERS_MAX: usize = 64;
/// Most alternative bundles in one grant.
pub const ALTERNATIVES_MAX: usize = 32;
/// Largest attachment in bytes; face data has the same bound.
pub const ATTACHMENT_BYTES_MAX: usize = 4096;
/// Longest text beside a reason, in bytes.
pub const REASON_TEXT_BYTES_MAX: usize = 256;
/// Longest actor or principal in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 256;
/// Largest pool.
pub const POOL_SIZE_MAX: u32 = 65_536;
/// Longest reservation: 24 hours.
pub const RESERVE_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Ended leases and operations that one event may physically retire.
pub const RETIRED_PER_EVENT_MAX: usize = 16;
/// Most losses a session remembers for its next heartbeat.
pub const SESSION_LOSSES_MAX: usize = 1024;
/// How long a successful outcome is remembered unless the command asks for longer: 10 minutes.
pub const OPERATION_KEEP_MS_DEFAULT: u64 = 10 * 60 * 1000;
/// Longest a command may ask its outcome to be remembered: 24 hours.
pub const OPERATION_KEEP_MS_MAX: u64 = 24 * 60 * 60 * 1000;

// A pool member's number has at most five digits; `split_pool_member` relies on it.
const _: () = assert!(POOL_SIZE_MAX < 100_000);

/// Capacities that only `decide` reads. They are not in the log: lowering one never changes what was granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Live leases in all.
    pub leases_max: u64,
    /// Live leases of one principal.
    pub leases_per_principal_max: u64,
    /// Pools.
    pub pools_max: u64,
    /// Open sessions.
    pub sessions_max: u64,
    /// Open sessions of one principal.
    pub sessions_per_principal_max: u64,
    /// Bytes of attachments and face data in all live leases.
    pub attachment_bytes_max: u64,
    /// The same in the leases of one principal.
    pub attachment_bytes_per_principal_max: u64,
    /// Ended leases that still wait for their notice.
    pub notices_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            leases_max: 10_000_000,
            leases_per_principal_max: 1_000_000,
            pools_max: 10_000,
            sessions_max: 1_000_000,
            sessions_per_principal_max: 500_000,
            attachment_bytes_max: 1 << 30,
            attachment_bytes_per_principal_max: 512 << 20,
            notices_max: 100_000,
        }
    }
}

impl Limits {
    /// The bound of one capacity.
    #[must_use]
    pub fn max_of(&self, capacity: Capacity) -> u64 {
        match capacity {
            Capacity::Leases => self.leases_max,
            Capacity::LeasesOfPrincipal => self.leases_per_principal_max,
            Capacity::Pools => self.pools_max,
            Capacity::Sessions => self.sessions_max,
            Capacity::SessionsOfPrincipal => self.sessions_per_principal_max,
            Capacity::AttachmentBytes => self.attachment_bytes_max,
            Capacity::AttachmentBytesOfPrincipal => self.attachment_bytes_per_principal_max,
            Capacity::Notices => self.notices_max,
        }
    }
}

/// How long ended leases and operations stay. `evolve` reads it, so a change is an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Retention {
    /// Ticks an ended lease stays readable.
    pub window_ms: u64,
    /// Ended leases kept in all.
    pub leases_max: u64,
    /// Ended leases kept per face.
    pub leases_per_face_max: u64,
    /// Operations kept per principal.
    pub operations_per_principal_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            window_ms: 24 * 60 * 60 * 1000,
            leases_max: 1_000_000,
            leases_per_face_max: 1_000_000,
            operations_per_principal_max: 1_000_000,
        }
    }
}
