//! The real daemon under everything that goes wrong: crashes, full disks, hostile bytes, slow and silent peers.

pub(crate) mod mount;
