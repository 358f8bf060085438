//! One goodbye of many: what stays registered on the same host is not touched by it.

use std::time::Duration;

use serde_json::json;

use super::peers::Change;
use super::peers::feed::LIMIT;
use super::stage::{HTTP, Stage, register, unregister};

/// Longer than any goodbye takes to be repeated and believed.
const AFTERMATH: Duration = Duration::from_secs(3);

#[test]
fn whoever_stays_never_flickers_when_another_of_the_host_goes() {
    let mut stage = Stage::begin();
    let mut registrant = stage.daemon.lines();
    register(&mut registrant, json!({"name": "stays", "type": HTTP, "port": 1}));
    let goes = register(&mut registrant, json!({"name": "goes", "type": HTTP, "port": 2}));
    let [stays, _] = stage.wait_added("stays");
    stage.wait_added("goes");
    let (by_zeroconf, by_avahi) = (stage.zeroconf.mark(), stage.avahi.mark());
    unregister(&mut registrant, &goes);
    stage.wait_removed("goes");
    // Nothing is told of one that stays as it is: not even that it is still there.
    assert_eq!(stage.zeroconf.watch_since(by_zeroconf, |seen| seen.name == "stays", AFTERMATH), None);
    assert_eq!(stage.avahi.watch_since(by_avahi, |seen| seen.name == "stays", Duration::ZERO), None);
    let host = stays.host.unwrap();
    let withdrawn: Vec<_> = stage
        .sniffer
        .records()
        .into_iter()
        .filter(|record| record.is_response && record.ttl == 0)
        .filter(|record| {
            let target = record.target.as_deref().unwrap_or_default();
            [record.name.as_str(), target]
                .iter()
                .any(|name| name.starts_with("stays.") || name.starts_with(&host))
        })
        .collect();
    assert_eq!(withdrawn, []);

    // Both still know where it is, also when they look anew.
    let again = stage.zeroconf.resolve("stays", HTTP, LIMIT).unwrap();
    assert_eq!((again.port, again.addresses.as_slice()), (Some(1), [stage.address()].as_slice()));
    let mark = stage.avahi.mark();
    stage.avahi.browse(HTTP);
    stage.avahi.wait_for_since(mark, |seen| seen.is(Change::Added, "stays"), LIMIT);
}
