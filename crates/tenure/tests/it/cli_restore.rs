//! `tenure restore`, from archives made of real logs.

use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::Value;
use tar::{Builder, Header};

use crate::cli_desk::Desk;
use crate::fixture::Fixture;

/// An archive as the daemon makes it.
fn archive(desk: &Desk) {
    let mut fixture = Fixture::begin();
    fixture.write_a_story();
    fixture.snapshot();
    fixture.close();
    let mut builder = Builder::new(fs::File::create(desk.path().join("backup.tar")).unwrap());
    for place in ["log", "snapshots"] {
        for entry in fs::read_dir(fixture.directory.path().join(place)).unwrap() {
            let entry = entry.unwrap();
            let name = Path::new(place).join(entry.file_name());
            builder.append_path_with_name(entry.path(), name).unwrap();
        }
    }
    builder.finish().unwrap();
}

#[test]
fn a_restored_log_is_sound_and_has_an_identity_of_its_own() {
    let desk = Desk::new();
    archive(&desk);
    let answer = desk.tenure(&["restore", "DIR/backup.tar", "DIR/data", "--json"]);
    assert_eq!(answer.code, 0, "{}", answer.err);
    let restored: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(restored["old_tag"], "as33");
    assert_ne!(restored["tag"], "as33");
    let verified = desk.tenure(&["log", "verify", "DIR/data", "--json"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let verified: Value = serde_json::from_str(&verified.out).unwrap();
    assert_eq!((&verified["sound"], &verified["tag"]), (&true.into(), &restored["tag"]));

    let text = desk.tenure(&["restore", "DIR/backup.tar", "DIR/again"]);
    assert_eq!(text.code, 0, "{}", text.err);
    assert!(text.out.contains("log as33 continues as log "), "{}", text.out);
    assert_eq!(text.err, "hint: start the daemon with: tenure serve --data-dir DIR/again\n");
}

#[test]
fn an_archive_may_come_over_standard_input() {
    let desk = Desk::new();
    archive(&desk);
    let input = fs::File::open(desk.path().join("backup.tar")).unwrap();
    let answer = desk.answer(desk.command(&["restore", "-", "DIR/data"]).stdin(input));
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[test]
fn a_directory_that_is_not_empty_is_not_touched() {
    let desk = Desk::new();
    archive(&desk);
    fs::create_dir_all(desk.path().join("data/log")).unwrap();
    expect![[r#"
        exit 1
        --- out
        --- err
        error: DIR/data is not empty
        hint: name an empty or new directory
    "#]]
    .assert_eq(&desk.tenure(&["restore", "DIR/backup.tar", "DIR/data"]).all());
    assert!(desk.path().join("data/log").is_dir());
}

#[test]
fn what_is_no_backup_leaves_nothing_behind() {
    let desk = Desk::new();
    fs::write(desk.path().join("text.tar"), "not an archive, but long enough to look at".repeat(40)).unwrap();
    let mut builder = Builder::new(fs::File::create(desk.path().join("strange.tar")).unwrap());
    let mut header = Header::new_gnu();
    header.set_size(1);
    header.set_cksum();
    builder.append_data(&mut header, "log/1.seg", &b"x"[..]).unwrap();
    builder.append_data(&mut header, "elsewhere/x", &b"x"[..]).unwrap();
    builder.finish().unwrap();
    let mut builder = Builder::new(fs::File::create(desk.path().join("empty.tar")).unwrap());
    builder.finish().unwrap();

    let mut out = String::new();
    for name in ["text.tar", "strange.tar", "empty.tar", "missing.tar"] {
        let answer = desk.tenure(&["restore", &format!("DIR/{name}"), "DIR/data"]);
        // A file that is not there is wrong usage; one that is no backup is unexpected.
        let code = if name == "missing.tar" { 2 } else { 3 };
        assert_eq!((answer.code, answer.out.as_str()), (code, ""), "{name}");
        assert!(!desk.path().join("data").exists(), "{name}");
        out.push_str(&answer.err);
    }
    fs::create_dir(desk.path().join("data")).unwrap();
    desk.tenure(&["restore", "DIR/strange.tar", "DIR/data"]);
    assert_eq!(fs::read_dir(desk.path().join("data")).unwrap().count(), 0);
    expect![[r#"
        error: cannot unpack DIR/text.tar: not a complete tar archive
        hint: name an archive that tenure backup wrote
        error: cannot unpack DIR/strange.tar: unexpected file elsewhere/x in the backup
        hint: name an archive that tenure backup wrote
        error: cannot restore the backup: cannot read DIR/data/log: No such file or directory (os error 2)
        hint: try an older backup
        error: cannot read DIR/missing.tar: No such file or directory (os error 2)
    "#]]
    .assert_eq(&out);
}
