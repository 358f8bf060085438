//! Keys of other programs as targets.

use crate::redis_server::RedisServer;
use crate::waiting::soon;
use std::time::Duration;
use tenure_polling::source::{RedisPatternSource, SourceError, TargetSource};
use tenure_polling::store::RedisOptions;

const OFTEN: Duration = Duration::from_millis(50);

fn source(server: &RedisServer) -> RedisPatternSource {
    let options = RedisOptions::new(server.url());
    RedisPatternSource::new(&options, "session:*").expect("a source").every(OFTEN)
}

async fn next(source: &mut RedisPatternSource) -> Vec<String> {
    let list = soon("a list", source.next()).await.expect("a list");
    list.iter().map(|target| target.to_string()).collect()
}

#[tokio::test]
async fn sessions_that_are_not_paused_are_targets() {
    let server = RedisServer::start().await;
    server.cli(&["SET", "session:1", r#"{"id":"one","isPaused":false}"#]);
    server.cli(&["SET", "session:2", r#"{"id":"two","isPaused":true}"#]);
    server.cli(&["SET", "session:3", "no JSON"]);
    server.cli(&["HSET", "session:4", "field", "value"]);
    server.cli(&["SET", "other:5", r#"{"id":"five"}"#]);
    let mut source = source(&server);
    assert_eq!(next(&mut source).await, ["3", "4", "one"]);
    server.cli(&["SET", "session:2", r#"{"id":"two","isPaused":false}"#]);
    assert_eq!(next(&mut source).await, ["3", "4", "one", "two"]);
    server.cli(&["DEL", "session:1", "session:3", "session:4"]);
    // They may be seen going one after the other.
    let mut last = Vec::new();
    while last != ["two"] {
        last = next(&mut source).await;
    }
}

#[tokio::test]
async fn an_unchanged_list_is_told_once() {
    let server = RedisServer::start().await;
    let mut source = source(&server);
    assert_eq!(next(&mut source).await, [""; 0], "an empty list is a list");
    let again = tokio::time::timeout(OFTEN * 6, source.next()).await;
    assert!(again.is_err(), "{again:?}");
    server.cli(&["SET", "session:1", "x"]);
    assert_eq!(next(&mut source).await, ["1"]);
}

#[tokio::test]
async fn many_sessions_are_read_in_parts() {
    let server = RedisServer::start().await;
    let script = "for i = 1, 2500 do redis.call('SET', 'session:' .. i, '{\"id\":\"s' .. i .. '\"}') end";
    server.cli(&["EVAL", script, "0"]);
    assert_eq!(next(&mut source(&server)).await.len(), 2_500);
}

#[tokio::test]
async fn trouble_is_told_and_what_was_told_counts_until_it_is_over() {
    let mut server = RedisServer::start().await;
    server.cli(&["SET", "session:1", "x"]);
    let mut source = source(&server);
    assert_eq!(next(&mut source).await, ["1"]);
    server.kill();
    let error = soon("an error", source.next()).await.expect_err("nobody is there");
    assert!(matches!(error, SourceError::Temporary(_)), "{error:?}");
    server.start_again().await;
    server.cli(&["SET", "session:2", "x"]);
    let mut told = Vec::new();
    while told.is_empty() {
        if let Ok(list) = soon("a list", source.next()).await {
            told = list;
        }
    }
    assert_eq!(told.iter().map(|target| &**target).collect::<Vec<_>>(), ["2"]);
}

#[tokio::test]
async fn whoever_may_not_read_is_told_so_for_good() {
    let server = RedisServer::start().await;
    server.cli(&["CONFIG", "SET", "requirepass", "s3cret"]);
    let error = soon("an error", source(&server).next()).await.expect_err("not allowed");
    assert!(matches!(error, SourceError::Permanent(_)), "{error:?}");
    let options = RedisOptions::new("ftp://h");
    assert!(matches!(RedisPatternSource::new(&options, "x*"), Err(SourceError::Permanent(_))));
    assert!(RedisPatternSource::new(&RedisOptions::new(server.url()), "").is_err());
}
