//! What the simulator must do itself: find every planted bug, find nothing without one, and say the same
//! thing twice.

mod cluster;
mod disk;
mod formats;
mod planted;
mod seeds;
