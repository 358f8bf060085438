//! What the five seed documents promise, pinned as transcripts: text files that say what is asked and what is answered,
//! played against the real binary and a real Redis. A transcript is never edited; what is new gets one of its own.
//!
//! Fields may be added to answers. Where a contract settles what a seed leaves open or contradicts, the transcript has
//! what the contract says and a comment that names it.

mod data_directory;
mod lease_kernel;
mod leases_and_admin;
mod pattern;
mod polling_leases;
mod registration_leases;
mod session_leases;
mod stage;
mod transcript;
