//! Pollers as real processes on real stores while something goes wrong. Whoever polls signs a log that the kernel
//! orders; a judge reads from it who polled what when, and what a sink that compares fences would have accepted.

/// The same test with the daemon and with a Redis as the store.
macro_rules! on_both_stores {
    ($($test:ident),* $(,)?) => {
        mod daemon {
            $(#[test] fn $test() { super::$test(crate::polling::scene::Kind::Daemon); })*
        }
        mod redis {
            $(#[test] fn $test() { super::$test(crate::polling::scene::Kind::Redis); })*
        }
    };
}

mod balance;
mod clocks;
mod crash_loop;
mod hole;
mod killed;
mod leaving;
mod names;
mod revoked;
mod scene;
mod silence;
mod steering;
mod stopped;
mod store_restarts;
mod target_lists;
mod witness;
