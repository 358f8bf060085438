//! Measuring: a clock, a random source, counted memory, and the table.

use crate::history::{self, Figures};
use serde_json::Value;
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) measured: String,
    pub(crate) reference: String,
    pub(crate) ratio: String,
    pub(crate) must: String,
    pub(crate) reached: bool,
    /// The same as numbers, for comparing runs.
    pub(crate) figures: Figures,
}

/// Counts what is allocated, so that memory is a number and not a guess.
pub(crate) struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator can only be wrapped by implementing an unsafe trait")]
// SAFETY: every call is passed on unchanged to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    // The default allocates, copies and frees: growing a large table would cost what it does not cost the daemon.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Ordering::Relaxed);
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Bytes allocated now.
pub(crate) fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// Now, on a clock for measuring.
#[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// How long something takes.
pub(crate) fn time<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let began = now();
    let result = run();
    (result, now() - began)
}

/// How much of its processor a piece of computing takes. Other programs on the machine do not count.
pub(crate) fn cpu_time<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let began = thread_time();
    let result = run();
    (result, thread_time() - began)
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Operations per second.
pub(crate) fn rate(operations: usize, took: Duration) -> f64 {
    operations as f64 / took.as_secs_f64()
}

/// The value below which this part of the samples lies.
pub(crate) fn percentile(samples: &mut [Duration], part: f64) -> Duration {
    samples.sort_unstable();
    let index = ((samples.len() as f64 * part) as usize).min(samples.len().saturating_sub(1));
    samples.get(index).copied().unwrap_or_default()
}

/// The middle of several measurements.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Small numbers as people write them.
pub(crate) fn people(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2} M/s", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k/s", v / 1e3),
        v => format!("{v:.0} /s"),
    }
}

/// A source of numbers that is the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// The rows as they are kept.
pub(crate) fn kept(rows: &[Row]) -> Value {
    rows.iter().map(|row| history::row(&row.name, &row.figures, &row.measured, row.reached)).collect()
}

/// The rows as a Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text =
        String::from("| row | measured | reference | ratio | must reach | |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let mark = if row.reached { "ok" } else { "MISSED" };
        let Row { name, measured, reference, ratio, must, .. } = row;
        let _ = writeln!(text, "| {name} | {measured} | {reference} | {ratio} | {must} | {mark} |");
    }
    text
}
