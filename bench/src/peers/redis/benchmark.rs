//! `redis-benchmark`, the tool that people measure a Redis with: its own figures, from its own client in C, over TCP.

use super::Redis;
use super::control::Control;
use super::resp;
use crate::peers::peer::{OwnTool, Shape, Work};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;
use std::time::Duration;

const TOOL: &str = "redis-benchmark";
/// Requests that show how many fit into the time.
const PROBE: u64 = 20_000;
const REQUESTS_MAX: u64 = 4_000_000;
/// Its largest range of keys. Names are drawn from it and not counted up, so that a few are not fresh: of a million
/// about 230, and to those `SET NX` answers that they are taken.
const KEYS: &str = "2147483647";
const TTL_MS: &str = "600000";
const HOT_KEY: &[u8] = b"hot";
const TOKEN: &str = "0000000000001f";

/// Acquires fresh keys, or renews one again and again, for about `time`. Everything in the server is flushed.
pub(super) fn run(redis: &Redis, work: Work, shape: Shape, time: Duration) -> Result<OwnTool> {
    let mut control = redis.control()?;
    let probe = run_once(redis, &mut control, work, shape, PROBE)?;
    let fits = (probe.rate * time.as_secs_f64()) as u64;
    let measured = run_once(redis, &mut control, work, shape, fits.clamp(PROBE, REQUESTS_MAX))?;
    control.text(&[b"FLUSHALL"])?;
    Ok(measured)
}

fn run_once(
    redis: &Redis,
    control: &mut Control,
    work: Work,
    shape: Shape,
    requests: u64,
) -> Result<OwnTool> {
    control.text(&[b"FLUSHALL"])?;
    let address = redis.address();
    let mut command = Command::new(TOOL);
    command
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--csv"])
        .args(["-c", &shape.connections.to_string(), "-P", &shape.depth.to_string()])
        .args(["-n", &requests.to_string()]);
    match work {
        Work::Acquire => {
            command.args(["-r", KEYS, "SET", "key:__rand_int__", TOKEN, "NX", "PX", TTL_MS]);
        }
        Work::Renew => {
            control.text(&[b"SET", HOT_KEY, TOKEN.as_bytes(), b"PX", TTL_MS.as_bytes()])?;
            let sha = control.text(&[b"SCRIPT", b"LOAD", resp::RENEW.as_bytes()])?;
            command.args(["EVALSHA", &sha, "1", "hot", TOKEN, TTL_MS]);
        }
        Work::Release | Work::AcquireBundle | Work::ReleaseBundle => {
            bail!("redis-benchmark is not asked for that")
        }
    }
    let output = command.output().context("redis-benchmark does not run")?;
    ensure!(output.status.success(), "redis-benchmark: {}", String::from_utf8_lossy(&output.stderr));
    read(&String::from_utf8(output.stdout)?, requests)
}

/// `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…`, then values.
fn read(text: &str, requests: u64) -> Result<OwnTool> {
    let mut lines = text.lines();
    let head =
        lines.find(|line| line.starts_with("\"test\",")).context("redis-benchmark names no columns")?;
    let values = lines.next().context("redis-benchmark says nothing")?;
    // The test is the command as it was given, which has no comma here.
    let values: Vec<&str> = values.split(',').map(|value| value.trim_matches('"')).collect();
    let of = |column: &str| -> Result<f64> {
        let place = head.split(',').position(|name| name.trim_matches('"') == column);
        let value = place.and_then(|place| values.get(place)).with_context(|| format!("no {column}"))?;
        value.parse().with_context(|| format!("{column} is {value:?}"))
    };
    let ms = |column: &str| Ok::<_, anyhow::Error>(Duration::from_secs_f64(of(column)? / 1_000.0));
    Ok(OwnTool {
        tool: TOOL,
        rate: of("rps")?,
        p50: ms("p50_latency_ms")?,
        p99: ms("p99_latency_ms")?,
        requests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_read_by_the_names_of_its_columns() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
            \"p99_latency_ms\",\"max_latency_ms\"\n\
            \"SET key:__rand_int__ x NX PX 600000\",\"128107.20\",\"1.9\",\"0.5\",\"1.875\",\"2.5\",\"3.000\",\"9\"\n";
        let read = read(text, 7).unwrap();
        assert_eq!((read.rate, read.requests), (128_107.2, 7));
        assert_eq!((read.p50, read.p99), (Duration::from_micros(1_875), Duration::from_millis(3)));
        assert!(super::read("Could not connect\n", 7).is_err());
    }
}
