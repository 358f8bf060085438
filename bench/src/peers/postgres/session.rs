//! One connection to PostgreSQL and the statements that leases are. Requests on it are pipelined: each is sent at once,
//! and carried out after those before it.

use anyhow::Result;
use std::path::Path;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Statement};

pub(super) struct Session {
    client: Client,
    acquire: Statement,
    renew: Statement,
    release: Statement,
    acquire_all: Statement,
    release_all: Statement,
    is_held: Statement,
}

/// The table, what makes fences, and all or nothing as a function: one round trip, one sync.
const FOUNDATION: &str = "
CREATE TABLE lease (name text PRIMARY KEY, holder text NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL);
CREATE SEQUENCE fence;
CREATE FUNCTION acquire_all(names text[], who text, ttl_ms float8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    given bigint := nextval('fence');
    taken bigint;
BEGIN
    INSERT INTO lease SELECT each, who, given, now() + ttl_ms * interval '1 millisecond'
        FROM unnest(names) AS each ORDER BY each
    ON CONFLICT (name) DO UPDATE
        SET holder = excluded.holder, token = excluded.token, expires = excluded.expires
        WHERE lease.expires < now();
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken <> cardinality(names) THEN
        RAISE EXCEPTION 'held';
    END IF;
    RETURN given;
END $$;
";
const ACQUIRE: &str = "
INSERT INTO lease VALUES ($1, $2, nextval('fence'), now() + $3 * interval '1 millisecond')
ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, token = excluded.token, expires = excluded.expires
    WHERE lease.expires < now()
RETURNING token";
const RENEW: &str = "
UPDATE lease SET expires = now() + $3 * interval '1 millisecond'
WHERE name = $1 AND token = $2 AND expires > now()";
const RELEASE: &str = "DELETE FROM lease WHERE name = $1 AND token = $2";
const ACQUIRE_ALL: &str = "SELECT acquire_all($1, $2, $3)";
const RELEASE_ALL: &str = "DELETE FROM lease WHERE name = ANY($1) AND token = $2";
const IS_HELD: &str = "SELECT 1 FROM lease WHERE name = $1 AND expires > now()";
const HOLDER: &str = "bench";

impl Session {
    /// On a fresh cluster, which gets its table first.
    pub(super) async fn found(socket: &Path) -> Result<Self> {
        Self::plain(socket).await?.batch_execute(FOUNDATION).await?;
        Self::open(socket).await
    }

    pub(super) async fn open(socket: &Path) -> Result<Self> {
        let client = Self::plain(socket).await?;
        Ok(Self {
            acquire: client.prepare(ACQUIRE).await?,
            renew: client.prepare(RENEW).await?,
            release: client.prepare(RELEASE).await?,
            acquire_all: client.prepare(ACQUIRE_ALL).await?,
            release_all: client.prepare(RELEASE_ALL).await?,
            is_held: client.prepare(IS_HELD).await?,
            client,
        })
    }

    /// Without the table.
    pub(super) async fn plain(socket: &Path) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) =
            Config::new().host_path(socket).user("tenure").dbname("postgres").connect(NoTls).await?;
        // Ends when the client is dropped; what goes wrong is told to whoever asks next.
        tokio::spawn(connection);
        Ok(client)
    }

    pub(super) async fn version(&self) -> Result<String> {
        let said: String = self.client.query_one("SHOW server_version", &[]).await?.try_get(0)?;
        // Distributions go on with their own.
        Ok(said.split(' ').next().unwrap_or_default().to_owned())
    }

    /// The fence, if the name was free or its lease over.
    pub(super) async fn acquire(
        &self,
        name: &str,
        ttl: Duration,
    ) -> Result<Option<i64>, tokio_postgres::Error> {
        let row = self.client.query_opt(&self.acquire, &[&name, &HOLDER, &ms(ttl)]).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    pub(super) async fn renew(
        &self,
        name: &str,
        token: i64,
        ttl: Duration,
    ) -> Result<bool, tokio_postgres::Error> {
        self.changes(&self.renew, &[&name, &token, &ms(ttl)], 1).await
    }

    pub(super) async fn release(&self, name: &str, token: i64) -> Result<bool, tokio_postgres::Error> {
        self.changes(&self.release, &[&name, &token], 1).await
    }

    /// All or none; refused by an error of the database.
    pub(super) async fn acquire_all(
        &self,
        names: &[String],
        ttl: Duration,
    ) -> Result<i64, tokio_postgres::Error> {
        self.client.query_one(&self.acquire_all, &[&names, &HOLDER, &ms(ttl)]).await?.try_get(0)
    }

    pub(super) async fn release_all(
        &self,
        names: &[String],
        token: i64,
    ) -> Result<bool, tokio_postgres::Error> {
        self.changes(&self.release_all, &[&names, &token], names.len() as u64).await
    }

    pub(super) async fn is_held(&self, name: &str) -> Result<bool> {
        Ok(self.client.query_opt(&self.is_held, &[&name]).await?.is_some())
    }

    async fn changes(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
        rows: u64,
    ) -> Result<bool, tokio_postgres::Error> {
        Ok(self.client.execute(statement, values).await? == rows)
    }
}

/// As the statements take it.
pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
