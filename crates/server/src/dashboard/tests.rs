//! What can be said of the dashboard's files without a browser.

use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn text(asset: &Asset) -> &'static str {
    std::str::from_utf8(asset.bytes).expect("the files are UTF-8")
}

fn scripts() -> impl Iterator<Item = &'static Asset> {
    assets().iter().filter(|asset| asset.media == SCRIPT)
}

fn files_below(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("the directory can be read") {
        let entry = entry.expect("the directory can be read");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        if entry.path().is_dir() {
            files_below(&entry.path(), &format!("{prefix}{name}/"), found);
        } else if !name.ends_with(".rs") {
            found.insert(format!("{prefix}{name}"));
        }
    }
}

#[test]
fn every_file_of_the_directory_is_served() {
    let mut written = BTreeSet::new();
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard"), "", &mut written);
    let served: BTreeSet<String> = assets().iter().map(|asset| asset.name.to_owned()).collect();
    assert_eq!(written, served);
}

#[test]
fn every_import_leads_to_a_file_that_is_served() {
    for script in scripts() {
        let directory = script.name.rsplit_once('/').map_or("", |(directory, _)| directory);
        for line in
            text(script).lines().filter(|line| line.contains(" from \"") || line.contains("import(\""))
        {
            let from = line.rsplit_once("from \"").or_else(|| line.rsplit_once("import(\""));
            let target = from.and_then(|(_, rest)| rest.split('"').next()).expect("an import names a file");
            let (start, rest) = match target.strip_prefix("/assets/") {
                Some(rest) => ("", rest),
                None => (directory, target),
            };
            let mut parts: Vec<&str> = start.split('/').filter(|part| !part.is_empty()).collect();
            for part in rest.split('/') {
                match part {
                    "." => {}
                    ".." => _ = parts.pop(),
                    name => parts.push(name),
                }
            }
            assert!(asset(&parts.join("/")).is_some(), "{} imports {target}", script.name);
        }
    }
}

#[test]
fn the_page_names_only_files_that_are_served() {
    for page in [home(), sign_in()] {
        for piece in text(page).split("\"/assets/").skip(1) {
            let name = piece.split('"').next().unwrap_or_default();
            assert!(asset(name).is_some(), "{} names {name}", page.name);
        }
    }
}

#[test]
fn no_script_makes_markup_of_text() {
    let ways = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
        "setHTML",
        "createContextualFragment",
        "DOMParser",
        "cssText",
        "http://",
        "https://",
    ];
    for script in scripts() {
        for (number, line) in text(script).lines().enumerate() {
            for way in ways {
                // The names of the two languages of markup are addresses that nobody asks.
                let is_name = line.contains("http://www.w3.org/");
                assert!(is_name || !line.contains(way), "{}:{}: {way}", script.name, number + 1);
            }
        }
    }
}

#[test]
fn the_page_has_neither_script_nor_style_in_it() {
    for page in [text(home()), text(sign_in())] {
        assert!(!page.contains(" style="), "a style in the markup");
        assert!(!page.contains("<style"), "a style sheet in the markup");
        assert!(!page.contains(" on") || !page.contains("onclick"), "a handler in the markup");
        for piece in page.split("<script").skip(1) {
            let (tag, rest) = piece.split_once('>').expect("a tag ends");
            assert!(
                tag.contains("src=\"/assets/") && rest.starts_with("</script>"),
                "a script in the markup"
            );
        }
    }
}

#[test]
fn every_script_says_first_what_it_owns() {
    for script in scripts() {
        let text = text(script);
        assert!(text.starts_with("// ") || text.starts_with("/**"), "{} has no header", script.name);
        let long = text.lines().position(|line| line.chars().count() > 120);
        assert_eq!(long, None, "{} has a long line", script.name);
    }
}

#[test]
fn who_has_a_file_is_not_sent_it_again() {
    let asset = home();
    let known = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(value).expect("plain"));
        asset.is_known_to(&headers)
    };
    assert!(known(&asset.tag));
    assert!(known(&format!("W/{}", asset.tag)));
    assert!(known(&format!("\"other\", {}", asset.tag)));
    assert!(known("*"));
    assert!(!known("\"other\""));
    assert!(!asset.is_known_to(&HeaderMap::new()));
}

#[test]
fn the_page_is_served_at_its_own_address_only() {
    assert!(asset("index.html").is_none());
    assert!(asset("sign-in.html").is_none());
    assert!(asset("").is_none());
    assert!(asset("../routes.rs").is_none());
    assert!(asset("style.css").is_some());
}
