//! Polling: ready for that face; until somebody polls it teaches.

use super::Board;

#[test]
fn a_daemon_where_nobody_polls_says_how_to() {
    let board = Board::begin();
    board.visit("polling");
    board.tab.wait_for_text("Nobody polls");
    board.tab.wait_for_text("tenure poll run");
    let severe: Vec<String> = board
        .tab
        .console()
        .into_iter()
        .filter(|line| line.starts_with("SEVERE") && !line.contains("/v1/polling"))
        .collect();
    assert!(severe.is_empty(), "{severe:?}");
}
