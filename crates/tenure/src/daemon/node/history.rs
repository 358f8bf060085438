//! The past of a node that began with a snapshot: brought from the copies of other nodes, one segment after the other, the
//! newest first, as far back as this node keeps history. Nobody waits for it; what cannot be had now is tried again later.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::BodyExt;
use tenure_engine::host::{HostOptions, read_clocks};
use tenure_faces::Stage;
use tenure_log::{Earlier, EarlierError, HistoryWindow, Junction, Lsn, Space, Taken};
use tenure_server::{NodeSegment, SEGMENTS_PATH};
use tokio::runtime::Handle as Runtime;
use tokio_util::sync::CancellationToken;

use super::asking::{PIECE_WITHIN, get, list};
use super::shared::NodeShared;

/// Ends the bringing when it goes out of scope.
pub(super) struct Bringing {
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// How often it is looked whether anything is missing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What could not be had is tried again after this long, and then after twice as long each time.
const AGAIN_MS_MIN: u64 = 1_000;
const AGAIN_MS_MAX: u64 = 300_000;
/// How long one segment may take.
const SEGMENT_WITHIN: Duration = Duration::from_secs(30 * 60);
/// How often indexes of sealed segments are looked after.
const INDEX_EVERY: Duration = Duration::from_secs(30);

struct Bringer {
    shared: Arc<NodeShared>,
    runtime: Runtime,
    stopping: CancellationToken,
    bytes_max: u64,
    age_max_ms: u64,
    stage: Stage,
    /// Room has been short: what would be brought would soon have to go again.
    was_short: bool,
    /// What could not be led up to last, when that is tried again, and after how long then.
    tried: Option<Lsn>,
    again_ms: u64,
    pause_ms: u64,
}

/// Why nothing was brought.
#[derive(Debug, thiserror::Error)]
enum BringError {
    /// The node cannot be asked, or has nothing that is of use.
    #[error("{0}")]
    Unavailable(String),
    /// What it gave is of no use.
    #[error(transparent)]
    Earlier(#[from] EarlierError),
}

/// Begins to bring what is missing, now and whenever the copy has been made again.
pub(super) fn start(
    shared: Arc<NodeShared>,
    host: &HostOptions,
    stage: Stage,
    runtime: &Runtime,
    stopping: &CancellationToken,
) -> Bringing {
    let stopping = stopping.child_token();
    let mut bringer = Bringer {
        shared,
        runtime: runtime.clone(),
        stopping: stopping.clone(),
        bytes_max: host.upkeep.history_bytes_max,
        age_max_ms: host.upkeep.history_age_max.as_millis() as u64,
        stage,
        was_short: false,
        tried: None,
        again_ms: 0,
        pause_ms: AGAIN_MS_MIN,
    };
    let run = move || {
        while !bringer.stopping.is_cancelled() {
            if !bringer.look() {
                let waiting = bringer.stopping.cancelled();
                let _ = bringer.runtime.block_on(async { tokio::time::timeout(LOOK_EVERY, waiting).await });
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("tenure-node-history".to_owned())
        .spawn(run)
        .expect("invariant: a thread can be started");
    Bringing { stopping, thread: Some(thread) }
}

/// Where the local log is that this node put aside last, because the log was adopted or its copy was of no use any more.
pub(super) fn log_put_aside(data_dir: &Path) -> Option<PathBuf> {
    let directory = std::path::absolute(data_dir.join("log.aside")).ok()?;
    directory.is_dir().then_some(directory)
}

impl Drop for Bringing {
    fn drop(&mut self) {
        self.stopping.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Bringer {
    /// Brings one segment, if one is missing and can be had. `false`: there is nothing to do for a while.
    fn look(&mut self) -> bool {
        let Some(junction) = self.missing() else { return false };
        let (at, now_ms) = (junction.lsn(), read_clocks().boot_ms);
        if self.tried != Some(at) {
            (self.tried, self.again_ms, self.pause_ms) = (Some(at), 0, AGAIN_MS_MIN);
        }
        if now_ms < self.again_ms {
            return false;
        }
        let brought = self.bring(&junction);
        if !brought {
            self.again_ms = now_ms + self.pause_ms;
            self.pause_ms = (self.pause_ms * 2).min(AGAIN_MS_MAX);
        }
        brought
    }

    /// Where this node's copy begins, if more of the past is wanted than it has.
    fn missing(&mut self) -> Option<Junction> {
        let mirror = self.shared.mirror()?;
        let mirror = mirror.lock().expect("invariant: nobody panics while holding the copy");
        self.was_short |= mirror.space() == Space::Low;
        // What the engine would let go again is not brought: by the same ticks.
        let tick = self.stage.faces().tick().0.max(mirror.end().at.tick);
        let window =
            HistoryWindow { bytes_max: self.bytes_max, oldest_tick: tick.saturating_sub(self.age_max_ms) };
        if self.was_short || window.filled_by(&mirror.extents()).is_some() {
            return None;
        }
        let beginning = mirror.beginning();
        // The disk may take its time, and others need the copy meanwhile.
        drop(mirror);
        beginning.junction().ok()?
    }

    fn bring(&self, junction: &Junction) -> bool {
        // Whoever writes has enough to do: it is asked last.
        let writer = self.shared.writer_elsewhere().map(|writer| writer.node);
        let mut others = self.shared.others();
        others.sort_by_key(|(name, _)| Some(name) == writer.as_ref());
        others.iter().any(|(node, url)| self.bring_from(node, url, junction))
    }

    fn bring_from(&self, node: &str, url: &str, junction: &Junction) -> bool {
        let mut segment = None;
        let brought = self.runtime.block_on(async {
            tokio::select! {
                brought = self.copy(url, junction, &mut segment) => brought,
                () = self.stopping.cancelled() => Err(unavailable("this node stops")),
            }
        });
        let put = brought.and_then(|earlier| {
            let segment = earlier.finish()?;
            // Not kept meanwhile: the copy may be made again at any time, and its directory has to be free then.
            let mirror = self.shared.mirror().ok_or(EarlierError::Outdated)?;
            let mut mirror = mirror.lock().expect("invariant: nobody panics while holding the copy");
            Ok(mirror.put_before(segment)?)
        });
        let segment = segment.unwrap_or_default();
        match put {
            Ok(extent) => {
                let (first_lsn, last_lsn) = (extent.first_lsn.0, extent.last_lsn.0);
                tracing::info!(node, first_lsn, last_lsn, "backfilled history from another node");
                return true;
            }
            Err(BringError::Earlier(error)) if error.is_damage() => {
                let error = crate::failure::chain(&error);
                tracing::warn!(node, segment, error, "dropped a damaged segment of another node's local log");
            }
            Err(error) => tracing::debug!(node, segment, %error, "no history to backfill"),
        }
        false
    }

    /// Copies what leads up to the junction from a node. `segment`: which one was asked for.
    async fn copy(
        &self,
        url: &str,
        junction: &Junction,
        segment: &mut Option<u64>,
    ) -> Result<Earlier, BringError> {
        let listed = list(&self.shared, url).await.map_err(BringError::Unavailable)?;
        let first_lsn =
            leading_up_to(&listed, junction.lsn()).ok_or_else(|| unavailable("it has no older segment"))?;
        *segment = Some(first_lsn);
        let asked = get(&self.shared, url, &format!("{SEGMENTS_PATH}/{first_lsn}")).await;
        let (mut body, _connection) = asked.map_err(BringError::Unavailable)?;
        let mut earlier = Earlier::begin(junction.clone())?;
        let taking = async {
            loop {
                let piece = tokio::time::timeout(PIECE_WITHIN, body.frame()).await;
                let piece = piece.map_err(|_| {
                    unavailable(&format!("the node sent nothing for {} s", PIECE_WITHIN.as_secs()))
                })?;
                // The end comes out when the segment is finished.
                let Some(piece) = piece else { return Ok(earlier) };
                let piece = piece.map_err(|error| BringError::Unavailable(error.to_string()))?;
                let Some(bytes) = piece.data_ref() else { continue };
                if earlier.take(bytes)? == Taken::Whole {
                    return Ok(earlier);
                }
            }
        };
        let taken = tokio::time::timeout(SEGMENT_WITHIN, taking).await;
        taken.unwrap_or_else(|_| Err(unavailable("it takes too long")))
    }
}

/// The segment with which to begin so as to come to `junction`. `None`: the node has nothing before, or does not reach it.
fn leading_up_to(listed: &[NodeSegment], junction: Lsn) -> Option<u64> {
    let reaches = listed.last().is_some_and(|last| last.last_lsn >= junction.0);
    let before = listed.iter().rev().find(|segment| segment.first_lsn <= junction.0);
    before.filter(|_| reaches).map(|segment| segment.first_lsn)
}

fn unavailable(why: &str) -> BringError {
    BringError::Unavailable(why.to_owned())
}

/// Makes the indexes that keep `why` quick, of what was brought too.
pub(super) async fn keep_indexes(stage: Stage, stopping: CancellationToken) {
    while !stopping.is_cancelled() {
        stage.faces().maintain_indexes().await;
        let _ = tokio::time::timeout(INDEX_EVERY, stopping.cancelled()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(bounds: &[(u64, u64)]) -> Vec<NodeSegment> {
        let segment = |(first_lsn, last_lsn): &(u64, u64)| NodeSegment {
            first_lsn: *first_lsn,
            last_lsn: *last_lsn,
            bytes: 1,
        };
        bounds.iter().map(segment).collect()
    }

    #[test]
    fn the_segment_to_begin_with_is_the_last_one_that_begins_before() {
        let there = listed(&[(1, 100), (101, 200), (201, 250)]);
        assert_eq!(leading_up_to(&there, Lsn(200)), Some(101));
        assert_eq!(leading_up_to(&there, Lsn(201)), Some(201));
        assert_eq!(leading_up_to(&there, Lsn(150)), Some(101));
        assert_eq!(leading_up_to(&there, Lsn(250)), Some(201));
    }

    #[test]
    fn a_node_that_has_no_more_or_lags_behind_is_of_no_use() {
        assert_eq!(leading_up_to(&listed(&[(101, 200)]), Lsn(100)), None);
        assert_eq!(leading_up_to(&listed(&[(1, 100)]), Lsn(120)), None);
        assert_eq!(leading_up_to(&[], Lsn(1)), None);
    }
}
