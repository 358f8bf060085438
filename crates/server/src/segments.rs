//! A node's copy of the log, as another node asks for it that began later and has no past yet. What the bytes mean is the
//! log's business.

use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// Where a node shows which segments it has; below it, by the first position, the bytes from there on.
pub const SEGMENTS_PATH: &str = "/v1/cluster/segments";

/// A node's copy of the log.
pub trait Segments: Send {
    /// What is kept, oldest first.
    fn list(&self) -> Vec<NodeSegment>;
    /// The bytes from a segment on; `None`: it is not kept. Blocks on the disk.
    ///
    /// # Errors
    /// When it cannot be read.
    fn open(&self, first_lsn: u64) -> io::Result<Option<Box<dyn Read + Send>>>;
}

/// The segments of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeSegments {
    /// Oldest first.
    pub segments: Vec<NodeSegment>,
}

/// One segment of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeSegment {
    /// The first position that it may hold.
    pub first_lsn: u64,
    /// The last position that it holds; below the first: none yet.
    pub last_lsn: u64,
    /// Its size.
    pub bytes: u64,
}
