//! What commands share that work on a cluster's store while no node runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_cluster::Keys;
use tenure_cluster::etcd::EtcdStore;
use tenure_engine::host::read_clocks;
use tenure_engine::{EngineConfig, rebuild, setup};
use tenure_kernel::Tick;
use tenure_kernel::codec::encode_state;
use tenure_log::{FileLogOptions, FileReader, Genesis, Identity, RealDisk, SharedDisk, SnapshotStore};

use crate::config::{Environment, EtcdAddress, Flags, Settings};
use crate::failure::{Failure, Words, chain};

/// A store, opened.
pub(super) struct Opened {
    pub(super) store: EtcdStore,
    pub(super) keys: Keys,
}

/// A state and where it stands.
pub(super) struct StateBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) tick: Tick,
    /// The longest ttl of any lease or session in it.
    pub(super) longest_ttl_ms: u64,
}

/// Opens the etcd that an address names, with the certificates and the user that the settings name.
pub(super) fn open(address: &EtcdAddress) -> Result<Opened, Failure> {
    let settings = Settings::load(&Flags::default(), &Environment::of_process())?;
    let options = settings.etcd_options(address).map_err(Failure::Usage)?;
    let store = EtcdStore::open(options).map_err(|error| failed(&error))?;
    Ok(Opened { store, keys: Keys::under(&address.prefix) })
}

pub(super) fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::Refused(Words::new(chain(error)))
}

pub(super) fn disk() -> SharedDisk {
    Arc::new(RealDisk)
}

/// Randomness and time for a log that is made.
pub(super) fn genesis() -> Genesis {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect("invariant: the system gives random bytes");
    Genesis { random, unix_seconds: read_clocks().wall_ms / 1_000, shard: 0 }
}

pub(super) fn log_options() -> FileLogOptions {
    FileLogOptions::new(genesis(), read_clocks().wall_ms)
}

/// The state that a snapshot and the frames after it come to.
pub(super) fn state_of(
    identity: &Identity,
    snapshots: &SnapshotStore,
    reader: &mut FileReader,
) -> Result<StateBytes, Failure> {
    let config = EngineConfig::default();
    let setup = setup(identity, &config);
    let newest = snapshots.newest();
    let replica = rebuild(setup, snapshots, newest.as_ref(), reader).map_err(|error| failed(&error))?;
    let tick = replica.tick();
    let kernel = replica.kernel();
    let leases = kernel.leases_from(tenure_kernel::LeaseId(0)).map(|view| u64::from(view.terms().ttl_ms));
    let sessions =
        kernel.sessions_from(tenure_kernel::SessionId(0)).map(|session| u64::from(session.ttl_ms()));
    let longest_ttl_ms = leases.chain(sessions).max().unwrap_or(0);
    let mut bytes = Vec::new();
    encode_state(kernel, &mut |part| bytes.extend_from_slice(part));
    Ok(StateBytes { bytes, tick, longest_ttl_ms })
}

/// Lets time pass.
pub(super) fn pause(time: Duration) {
    let until_ms = read_clocks().boot_ms + time.as_millis() as u64;
    loop {
        let left_ms = until_ms.saturating_sub(read_clocks().boot_ms);
        if left_ms == 0 {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(left_ms));
    }
}

/// Writes a small file so that it is there after a power cut.
pub(super) fn write_durably(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let temporary = directory.join(format!("{name}.part"));
    let mut file = std::fs::File::create(&temporary)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, directory.join(name))?;
    std::fs::File::open(directory)?.sync_all()
}
