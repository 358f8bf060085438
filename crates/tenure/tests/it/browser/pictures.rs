//! Pictures of pages. Every run leaves them below the target directory; with `TENURE_PICTURES=write` those that the
//! documents show are also put where the documents look for them.

use std::fs;
use std::path::Path;

use super::chromium::target_directory;
use super::tab::Tab;

/// Documents are cloned by everybody.
const BYTES_MAX: usize = 200 * 1024;

/// Takes a picture of the window for whoever wants to look. The name is that of the file, without its ending.
#[track_caller]
pub(crate) fn take(tab: &Tab, name: &str) {
    put(&target_directory().join("pictures"), name, &of(tab, name));
}

/// Takes a picture that the documents show.
#[track_caller]
pub(crate) fn take_for_documents(tab: &Tab, name: &str) {
    let picture = of(tab, name);
    put(&target_directory().join("pictures"), name, &picture);
    if std::env::var("TENURE_PICTURES").is_ok_and(|wish| wish == "write") {
        put(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/pictures"), name, &picture);
    }
}

#[track_caller]
fn of(tab: &Tab, name: &str) -> Vec<u8> {
    let picture = tab.picture().unwrap();
    assert!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    assert!(picture.len() <= BYTES_MAX, "{name} has {} bytes, at most {BYTES_MAX}", picture.len());
    picture
}

fn put(directory: &Path, name: &str, picture: &[u8]) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join(format!("{name}.png")), picture).unwrap();
}
