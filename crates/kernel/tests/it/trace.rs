//! Contract §9 word for word: the text of the contract is the script and the expectation.

use crate::script::Runner;
use tenure_kernel::{LeaseId, Lsn, Setup, Tick};

const TRACE: &str = "
5 1  reserve [r1,r2] holder=h9 ttl=3      → granted lease 1 epoch 1 fence 1 deadline 8
5 –  reserve [r1] holder=h7 ttl=3         → resource_held r1 by lease 1
5 –  activate 1 holder=h7 epoch=1         → holder_mismatch
5 –  activate 1 holder=h9 epoch=2         → stale_epoch current=1
5 2  activate 1 holder=h9 epoch=1         → active
8 –  expire 1                             → nothing (active never expires)
8 –  reclaim 1                            → invalid_state active
8 3  revoke 1                             → revoking epoch 2; r1 and r2 still unavailable
8 –  release 1 holder=h9 epoch=1          → stale_epoch current=2
8 –  release 1 holder=h9 epoch=2          → invalid_state revoking
8 –  reserve [r1] holder=h7 ttl=3         → resource_held r1 by lease 1
20 4 reclaim 1                            → revoked; r1 and r2 available
24 – read 1                               → revoked (still retained)
25 5 reserve [r2] holder=h7 ttl=3         → granted lease 5 epoch 1 fence 5 deadline 28; lease 1 is retired
25 – read 1                               → lease_retired
25 – read 99                              → lease_not_found
28 6 expire 5                             → expired epoch 2; r2 available
";

#[test]
fn the_trace_of_the_contract_is_reproduced() {
    let mut runner = Runner::new(Setup::plain());
    // Windows enter the log as a record of their own; the trace counts positions after it.
    runner.preset_window(4);
    for line in TRACE.lines().filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once('→').unwrap();
        let mut words = step.split_whitespace();
        let tick: u64 = words.next().unwrap().parse().unwrap();
        let lsn = words.next().unwrap();
        let command = words.collect::<Vec<_>>().join(" ");

        let came = runner.step(tick, &command);
        let came_lsn = came.lsn.map_or("–".to_owned(), |lsn| lsn.to_string());
        let (outcome, remark) = match expected.trim().split_once([';', '(']) {
            Some((outcome, remark)) => (outcome.trim(), remark.trim().trim_end_matches(')')),
            None => (expected.trim(), ""),
        };
        assert_eq!((came_lsn.as_str(), came.outcome.as_str()), (lsn, outcome), "{line}");

        let covered = |name| runner.kernel.covering(name).is_some();
        let lease_1 = runner.kernel.lease(LeaseId::new(0, Lsn(1)), Tick(tick));
        match remark {
            "" => {}
            "active never expires" => assert!(runner.kernel.live(LeaseId(1)).is_some()),
            "r1 and r2 still unavailable" => assert!(covered("r1") && covered("r2")),
            "r1 and r2 available" => assert!(!covered("r1") && !covered("r2")),
            "r2 available" => assert!(!covered("r2")),
            "still retained" => assert!(matches!(lease_1, tenure_kernel::Found::Ended(_))),
            "lease 1 is retired" => {
                assert!(matches!(lease_1, tenure_kernel::Found::Retired));
                assert_eq!(runner.kernel.watermark(), Lsn(1));
                assert_eq!(runner.kernel.retained_count(), 0);
            }
            other => panic!("the trace remarks '{other}' and nothing checks it"),
        }
    }
}
