//! Ten thousand leases: the page holds what is seen, and stays usable.

use serde_json::{Value, json};

use super::Board;

const LEASES: usize = 10_000;
/// Lines that are sent before their answers are read.
const AT_ONCE: usize = 500;

/// Takes many leases over one connection.
fn fill(board: &Board, prefix: &str, number: usize) -> Vec<String> {
    let mut lines = board.daemon.lines();
    let mut ids = Vec::new();
    for from in (0..number).step_by(AT_ONCE) {
        let some = from..(from + AT_ONCE).min(number);
        let text: String = some
            .clone()
            .map(|index| {
                let acquire = json!({
                    "resources": [format!("{prefix}/{index:05}")], "holder": format!("holder-{:03}", index % 137),
                    "ttl_ms": 600_000, "mode": "heartbeat",
                });
                format!("{}\n", json!({"acquire": acquire}))
            })
            .collect();
        lines.raw(text.as_bytes()).unwrap();
        for _ in some {
            let answer = lines.next();
            ids.push(
                answer["acquired"]["lease_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned(),
            );
        }
    }
    ids
}

fn rows_in_document(board: &Board) -> u64 {
    board.tab.count(".lease-row[data-lease-id]")
}

#[test]
fn ten_thousand_leases_are_listed_scrolled_sorted_and_filtered() {
    let board = Board::begin();
    let ids = fill(&board, "r", LEASES);
    board.visit("leases");
    board.tab.wait_for_text("10,000 leases");
    assert!(rows_in_document(&board) < 100, "{} rows", rows_in_document(&board));
    let elements = board.tab.count("*");
    assert!(elements < 3_000, "{elements} elements");
    let grid = board.tab.thing("grid", "Leases");
    assert!(!grid.name.is_empty());
    assert_eq!(
        board.tab.run("return document.querySelector('[role=grid]').getAttribute('aria-rowcount')"),
        "10001"
    );

    // The newest is first; the oldest is at the end of the scroll.
    board.wait_for_row(&ids[LEASES - 1], "alive");
    board.tab.run("const rows = document.querySelector('.rows'); rows.scrollTop = rows.scrollHeight;");
    board.wait_for_row(&ids[0], "alive");
    board.tab.run("document.querySelector('.rows').scrollTop /= 2;");
    board.wait_for_row(&ids[LEASES / 2], "alive");
    assert!(rows_in_document(&board) < 100);
    board.tab.run("document.querySelector('[role=grid]').focus()");
    board.tab.press(thirtyfour::Key::Home);
    board.wait_for_row(&ids[LEASES - 1], "alive");
    board.tab.press(thirtyfour::Key::End);
    board.wait_for_row(&ids[0], "alive");

    board.tab.click("button", "Resources");
    board.tab.wait_until("document.querySelector('[aria-sort=ascending]')?.textContent === 'Resources'");
    board.tab.press(thirtyfour::Key::Home);
    board.tab.run("document.querySelector('.rows').scrollTop = 0;");
    board.wait_for_row(&ids[0], "alive");
    board.tab.fill("searchbox", "Filter leases", "r/07777");
    board.tab.wait_for_text("1 of 10,000");
    assert_eq!(board.rows()[0][0], "r/07777");
    board.tab.fill("searchbox", "Filter leases", "holder-042");
    board.tab.wait_for_text("73 of 10,000");
    board.tab.assert_clean();
}

#[test]
fn ten_thousand_leases_that_come_and_go_leave_the_page_usable() {
    let board = Board::begin();
    let ids = fill(&board, "r", LEASES);
    board.visit("leases");
    board.tab.wait_for_text("10,000 leases");
    board.tab.run(
        "window.frames_ms = [];
         let last = performance.now();
         const frame = (now) => { frames_ms.push(now - last); last = now; requestAnimationFrame(frame); };
         requestAnimationFrame(frame);",
    );
    let gone = &ids[..2_000];
    let mut http = board.daemon.http_over_socket();
    let ways: Vec<String> = gone.iter().map(|id| format!("/v1/leases/{id}/release")).collect();
    let more = fill(&board, "n", 2_000);
    for way in ways.iter().take(500) {
        assert_eq!(http.post(way, &json!({"epoch": 1})).status, 200);
    }
    board.wait_for_row(&more[1_999], "alive");
    board.tab.wait_for_text("11,500 leases");
    assert!(rows_in_document(&board) < 100);
    // A click is answered in the midst of it.
    board.tab.click_on(&format!(".lease-row[data-lease-id='{}']", more[1_999]));
    board.tab.wait_until_with(
        "document.getElementById('panel').dataset.leaseId === given[0]",
        &[json!(more[1_999])],
    );
    let frames = board.tab.run("return frames_ms");
    tell(&frames);
    board.tab.run("location.hash = '#/'");
    board.tab.wait_until("document.querySelector('[data-count=total]')?.textContent === '11,500'");
    board.tab.run("location.hash = '#/events'");
    board.tab.wait_until("document.querySelectorAll('.event-row').length < 100");
    board.tab.assert_clean();
}

/// As information: what a frame takes depends on the machine and on who else is using it.
#[expect(clippy::print_stderr, reason = "figures for whoever runs it with its output shown")]
fn tell(frames: &Value) {
    let mut ms: Vec<f64> = frames.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() - 1) as f64 * share) as usize];
    eprintln!(
        "{} frames: half within {:.0} ms, 99 % within {:.0} ms, all within {:.0} ms",
        ms.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
}
