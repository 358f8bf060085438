//! The pages of `docs/reference/` that are generated are what this binary generates.

use std::fs;
use std::path::Path;

use crate::cli_desk::Desk;

#[test]
fn the_generated_pages_are_committed_as_they_are() {
    let desk = Desk::new();
    let answer = desk.tenure(&["reference", "DIR/reference"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut pages = 0;
    for entry in fs::read_dir(desk.path().join("reference")).unwrap() {
        let entry = entry.unwrap();
        let generated = fs::read_to_string(entry.path()).unwrap();
        let there = fs::read_to_string(committed.join(entry.file_name())).unwrap_or_default();
        let line = generated.lines().zip(there.lines()).take_while(|(new, old)| new == old).count() + 1;
        assert!(
            generated == there,
            "docs/reference/{} differs from line {line} on; run `cargo xtask fix`",
            entry.file_name().display()
        );
        pages += 1;
    }
    assert!(pages >= 2);
}
