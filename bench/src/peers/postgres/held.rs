//! Many rows held in PostgreSQL, and the sweeper that removes what is over.

use super::session::{Session, ms};
use crate::gauge;
use crate::peers::peer::Held;
use crate::peers::tasks::runtime;
use crate::peers::wire::Names;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::Client;

pub(super) struct Rows {
    names: Names,
    client: Client,
    runtime: Runtime,
}

const TAKE: &str = "
INSERT INTO lease SELECT $1 || lpad(to_hex(place), 12, '0'), 'bench', nextval('fence'), now() + $2 * interval '1 millisecond'
FROM generate_series($3::bigint, $4::bigint) AS place";
/// Names go on with hexadecimal digits, all of which come before `g`.
const COUNT: &str = "SELECT count(*) FROM lease WHERE name >= $1 AND name < $1 || 'g'";
const MOVE: &str = "
UPDATE lease SET expires = now() + $2 * interval '1 millisecond' WHERE name >= $1 AND name < $1 || 'g'";
const SWEEP: &str = "DELETE FROM lease WHERE expires < now()";
/// Rows of one statement.
const AT_ONCE: u64 = 10_000;
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// How late the last may be.
const LATE_BY: Duration = Duration::from_secs(120);

impl Rows {
    pub(super) fn take(socket: &Path, count: u64, ttl: Duration) -> Result<Self> {
        let runtime = runtime()?;
        let names = Names::fresh();
        let client = runtime.block_on(async {
            let client = Session::plain(socket).await?;
            for first in (0..count).step_by(AT_ONCE as usize) {
                let last = (first + AT_ONCE).min(count) - 1;
                client.execute(TAKE, &[&names.prefix(), &ms(ttl), &(first as i64), &(last as i64)]).await?;
            }
            let found = count_of(&client, names).await?;
            ensure!(found == count, "{found} of {count} are held");
            Ok(client)
        })?;
        Ok(Self { names, client, runtime })
    }
}

impl Held for Rows {
    fn storm(self: Box<Self>, from_now: Duration) -> Result<Duration> {
        let Self { names, client, runtime } = *self;
        runtime.block_on(async {
            let deadline = gauge::now() + from_now;
            client.execute(MOVE, &[&names.prefix(), &ms(from_now)]).await?;
            ensure!(
                gauge::now() < deadline,
                "moving the deadlines took longer than {} s",
                from_now.as_secs()
            );
            let mut ticks = interval(SWEEP_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while gauge::now() < deadline + LATE_BY {
                ticks.tick().await;
                let swept = client.execute(SWEEP, &[]).await?;
                let now = gauge::now();
                if swept > 0 && count_of(&client, names).await? == 0 {
                    return Ok(now.saturating_duration_since(deadline));
                }
            }
            anyhow::bail!("rows are left {} s after their deadline", LATE_BY.as_secs())
        })
    }
}

async fn count_of(client: &Client, names: Names) -> Result<u64> {
    let count: i64 = client.query_one(COUNT, &[&names.prefix()]).await?.try_get(0)?;
    Ok(count.unsigned_abs())
}
