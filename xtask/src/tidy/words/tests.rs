//! Phrases that must be found and must not be found, and which texts are read for them.

use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    check(&Tree::of(&[(path, text)])).iter().map(Finding::shown).collect()
}

fn phrases_in(text: &str) -> Vec<String> {
    prose::markdown(text).iter().flat_map(in_block).map(|(_, words, _)| words).collect()
}

#[test]
fn phrases_that_must_be_found() {
    for (text, phrase) in [
        ("10 s unless told.", "unless told"),
        ("Holder; user@host\nunless\ntold", "unless told"),
        ("The network is told.", "is told"),
        ("Whoever asks gets it", "whoever"),
        ("Kept as long as it is heartbeat.", "it is heartbeat"),
        ("frame 7 is none", "is none"),
        ("`x` is no endpoint", "is no endpoint"),
        ("The answer is **no promise**", "is no promise"),
        ("| a | nobody writes |", "nobody"),
        ("- etcd is spoken to over TLS", "spoken to"),
        ("End after this, for so long", "for so long"),
        ("The [helm](a.md) is free", "helm"),
        ("It stays for ever", "for ever"),
        ("Is the guardian stopped, the supervisor kills it.", "is the …,"),
        ("One thing; is the supervisor killed, it ends.", "is the …,"),
        ("Who holds a target keeps it.", "who holds …"),
        ("Text. What is over a limit is refused.", "what is …"),
        ("The new writer serves", "new writer"),
    ] {
        assert!(phrases_in(text).iter().any(|found| found == phrase), "{text}: {:?}", phrases_in(text));
    }
}

#[test]
fn phrases_that_must_not_be_found() {
    for text in [
        "There is no leader. It is no longer held, and no more than one.",
        "`unless told` is code, and so is `is\nnone`.",
        "```\nunless told\n```",
        "unless the operator told it",
        "[text](unless-told.md), https://example.org/helm",
        "is this rule right? Is the daemon running, or not?",
        "If the guardian is stopped, the supervisor kills it.",
        "# What is proved, and how it is",
        "What Tenure does is simple. What this costs is small. What pollers do is polling.",
        "Who may renew a lease?",
        "| is | none |",
        "surface, interface, facet, delegate, helmet, desktop",
        "It told the daemon. Told. The writers of fenced data.",
    ] {
        assert_eq!(phrases_in(text), [""; 0], "{text}");
    }
}

#[test]
fn a_finding_names_its_line_and_what_to_write() {
    assert_eq!(
        found("docs/a.md", "# A\n\none\n10 s unless\ntold\n"),
        ["docs/a.md:4: `unless told`: write `[default: …]`"]
    );
}

#[test]
fn texts_that_users_meet_are_read_in_rust() {
    let source = "//! whoever\n\
                  #[error(\"{0:?} is no endpoint\")]\n\
                  /// Helm.\n\
                  pub fn f() { warn!(a, \"nobody came\"); } // anew\n\
                  let a = \"a line that is \\\n    told\";\n\
                  let b = x.expect(\"invariant: somebody is there\");\n\
                  #[cfg(test)]\n\
                  mod tests { const A: &str = \"whoever\"; }\n";
    let lines = |path: &str| -> Vec<usize> {
        check(&Tree::of(&[(path, source)])).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(lines("crates/server/src/a.rs"), [2, 4, 5]);
    assert_eq!(lines("crates/client/src/a.rs"), [2, 3, 4, 5]);
    assert_eq!(lines("crates/client/src/lib.rs"), [1, 2, 3, 4, 5]);
    assert_eq!(lines("crates/client/examples/a.rs"), [1, 2, 3, 4, 4, 5]);
    assert_eq!(lines("crates/tenure/tests/it/a.rs"), [0; 0]);
    assert_eq!(lines("xtask/src/a.rs"), [0; 0]);
}

#[test]
fn doc_comments_are_read_where_they_are_documentation() {
    let source = "/// Helm 1.\n\
                  #[must_use]\n\
                  pub struct A {\n\
                  \x20   /// Helm 4.\n\
                  \x20   a: u8,\n\
                  }\n\
                  /// Helm 7.\n\
                  pub(crate) struct B;\n\
                  /// Helm 9.\n\
                  fn f() {}\n\
                  pub trait T {\n\
                  \x20   /// Helm 12.\n\
                  \x20   fn g();\n\
                  }\n\
                  impl A {\n\
                  \x20   /// Helm 16.\n\
                  \x20   fn h() {}\n\
                  }\n";
    let lines = |path: &str| -> Vec<usize> {
        check(&Tree::of(&[(path, source)])).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(lines("crates/client/src/a.rs"), [1, 4, 12]);
    assert_eq!(lines("crates/tenure/src/commands/a.rs"), [1, 4, 7]);
    assert_eq!(lines("crates/server/src/a.rs"), [0; 0]);
}

#[test]
fn users_meet_one_word_for_what_the_rules_reject() {
    let text = "The daemon refuses grants. A connection refused is another thing.";
    assert_eq!(
        found("docs/guides/a.md", text),
        ["docs/guides/a.md:1: `refuses`: the daemon rejects, the request is rejected"]
    );
    assert_eq!(found("docs/internals/a.md", text), [""; 0]);
}

#[test]
fn phrases_that_records_may_keep_are_found_where_users_read() {
    for (text, phrase) in [
        ("no node writes at present", "no node writes"),
        ("the node that writes did not answer", "node that writes"),
        ("the redis answered something else", "answered something else"),
        ("fnv1a knows no weights", "knows no"),
        ("a line without end", "without end"),
        ("its holder asked for it", "asked for it"),
        ("the command died of SIGKILL", "died of"),
        ("a session stands twice", "stands twice"),
    ] {
        let source = format!("f(\"{text}\")");
        let shown = found("crates/server/src/a.rs", &source);
        assert!(shown.iter().any(|finding| finding.contains(&format!("`{phrase}`"))), "{text}: {shown:?}");
        assert_eq!(found("docs/internals/a.md", text), [""; 0]);
    }
}

#[test]
fn two_literals_are_two_texts() {
    assert_eq!(found("crates/server/src/a.rs", "f(\"x unless\", \"told y\")"), [""; 0]);
    assert_eq!(found("crates/server/src/a.rs", "f(\"face\", \",\\\"face\\\":\")"), [""; 0], "names");
}

#[test]
fn what_was_recorded_is_not_read() {
    assert_eq!(found("crates/log/tests/golden/v1/README.md", "whoever"), [""; 0]);
    assert_eq!(found("crates/tenure/tests/it/samples/a.md", "whoever"), [""; 0]);
}

#[test]
fn an_exception_covers_one_phrase_of_one_file_or_all_of_them() {
    let one = Allowed { path: "docs/a.md", phrase: "unless told" };
    assert!(one.covers("docs/a.md", "unless told"));
    assert!(!one.covers("docs/a.md", "whoever") && !one.covers("docs/b.md", "unless told"));
    let all = Allowed { path: "docs/a.md", phrase: "*" };
    assert!(all.covers("docs/a.md", "whoever") && !all.covers("docs/b.md", "whoever"));
}

#[test]
fn texts_of_the_dashboard_and_of_manifests_are_read() {
    let script = "// nobody knows\n\
                  h(\"p\", {}, \"Nobody is waiting\"); // nobody asks\n\
                  /** Somebody else. */\n\
                  write(a, `held by ${name(\"x\")} as\n\
                  somebody else`);\n\
                  const a = b ? 'told to stop' : 'it is told';\n\
                  const url = \"https://nobody.example/nobody\", nobody = `${nobody}`;\n";
    let lines = |path: &str, text: &str| -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(lines("crates/server/src/dashboard/pages/a.js", script), [2, 5, 6, 6]);
    assert_eq!(lines("crates/client/js/a.js", script), [0; 0]);
    let page = "<title>Tenure</title>\n<p title=\"for somebody\">For everybody here</p>\n";
    assert_eq!(lines("crates/server/src/dashboard/a.html", page), [2, 2]);
    let manifest = "[package]\nname = \"nobody\"\ndescription = \"A server for those who cannot\"\n";
    assert_eq!(lines("crates/a/Cargo.toml", manifest), [3]);
}
