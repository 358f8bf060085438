//! Readers: keyboard alone, screen readers, phones, light and dark, and those who want nothing to move.

use serde_json::{Value, json};
use thirtyfour::Key;

use super::Board;
use crate::polling_http::ways::{ByHand, LONG_MS, let_go};

const PAGES: &[&str] = &["", "leases", "waiting", "why", "registrations", "slots", "polling", "events"];

/// A bit of everything to look at.
fn furnished() -> (Board, String) {
    let board = Board::with_sessions("60s");
    let id = board.acquire(
        "a-resource-with-a-rather-long-name/which-goes-on-and-on/and-does-not-break-anywhere",
        "somebody-whose-name-is-longer-than-any-phone-is-wide@a-host-with-a-long-name.example",
        json!({"grace_ms": 600_000}),
    );
    board.post(&format!("/v1/leases/{id}/drain"), &json!({}));
    board.post(
        "/api/v3/intents",
        &json!({"type": "stream.start", "client": "living room", "service_ref": "1:0:19:283D"}),
    );
    board.daemon.post("/v1/mdns/services", &json!({"name": "My App", "type": "_http._tcp", "port": 80}));
    let name = "a-poller-whose-name-is-longer-than-any-phone-is-wide";
    let poller = ByHand::join(&board.daemon, name, LONG_MS);
    poller.take(
        &board.daemon,
        "a-target-with-a-rather-long-name/which-goes-on-and-on/and-does-not-break-anywhere",
    );
    let_go(&board.daemon, &poller.take(&board.daemon, "a-target-that-nobody-has"), "voluntary");
    (board, id)
}

/// Visits a page and waits for what is read a moment later.
#[track_caller]
fn visit_whole(board: &Board, page: &str) {
    board.visit(page);
    board.tab.wait_until("document.querySelector('h1') !== null");
    let read_later = match page {
        "registrations" => ".registration-row:not([hidden])[data-registration-id]",
        "polling" => ".target-row:not([hidden])[data-target]",
        _ => "main",
    };
    board.tab.find(read_later);
}

#[test]
fn every_page_has_a_name_one_heading_and_nothing_nameless() {
    let (board, id) = furnished();
    for page in PAGES {
        board.visit(page);
        board.tab.wait_until("document.querySelectorAll('h1').length === 1");
        let main = board.tab.run("return document.querySelector('main').getAttribute('aria-label')");
        assert_eq!(board.tab.run("return document.title"), format!("{} · Tenure", main.as_str().unwrap()));
        assert_eq!(board.tab.count(".nav [aria-current=page]"), 1, "{page}");
        let nameless: Vec<_> = board
            .tab
            .tree()
            .into_iter()
            .filter(|thing| {
                let roles = [
                    "button",
                    "link",
                    "textbox",
                    "searchbox",
                    "combobox",
                    "checkbox",
                    "spinbutton",
                    "image",
                    "grid",
                    "table",
                    "dialog",
                ];
                roles.contains(&thing.role.as_str()) && thing.name.trim().is_empty()
            })
            .collect();
        assert!(nameless.is_empty(), "{page}: {nameless:?}");
        let duplicates = board.tab.run(
            "const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
             return ids.filter((id, index) => ids.indexOf(id) !== index);",
        );
        assert_eq!(duplicates, json!([]), "{page}");
    }
    board.visit(&format!("leases?lease={id}"));
    let button = board.tab.find("#panel [data-action=revoke]");
    assert_eq!(board.tab.role_and_name(&button), ["button", "Revoke"]);
    let link = board.tab.find(".nav [aria-current]");
    assert_eq!(board.tab.role_and_name(&link)[0], "link");
    assert_eq!(board.tab.run("return document.documentElement.lang"), "en");
}

#[test]
fn a_table_tells_its_rows_and_columns() {
    let (board, id) = furnished();
    board.visit("leases");
    board.wait_for_row(&id, "draining");
    let roles: Vec<String> = board.tab.tree().into_iter().map(|thing| thing.role).collect();
    for role in ["grid", "row", "columnheader", "gridcell", "navigation", "main", "search"] {
        assert!(roles.iter().any(|known| known == role), "{role} among {roles:?}");
    }
    let headers = board.tab.all("columnheader", "");
    assert!(headers.iter().any(|header| header.name == "Holder"), "{headers:?}");
}

/// Nothing here needs a mouse.
#[test]
fn a_lease_is_found_and_revoked_by_the_keyboard_alone() {
    let board = Board::begin();
    board.acquire("apple", "alice", json!({}));
    let id = board.acquire("pear", "bob", json!({}));
    board.visit("");
    board.tab.press(Key::Tab);
    assert_eq!(board.tab.focused().unwrap().name, "Skip to content");
    board.tab.press(Key::Enter);
    board.tab.wait_until("document.activeElement.id === 'main'");
    board.tab.type_text("gl");
    board.tab.wait_until("location.hash === '#/leases'");
    board.wait_for_row(&id, "alive");
    board.tab.type_text("/");
    board.tab.wait_until("document.activeElement.matches('[data-filter=text]')");
    board.tab.type_text("pear");
    board.tab.wait_for_text("1 of 2");
    board.tab.press(Key::Down);
    board.tab.wait_until("document.activeElement.matches('[role=grid]')");
    board.tab.wait_until("document.querySelector('.lease-row[aria-selected=true]')");
    board.tab.press(Key::Enter);
    board.tab.wait_until("!document.getElementById('panel').hidden");
    board.tab.press(Key::Escape);
    board.tab.wait_until(
        "document.getElementById('panel').hidden && document.activeElement.matches('[role=grid]')",
    );
    board.tab.type_text("x");
    assert!(board.dialog().contains("bob"));
    board.tab.press(Key::Escape);
    board.wait_for_no_dialog();
    assert_eq!(board.lease(&id)["state"], "active", "Escape does nothing");
    board.tab.press(Key::Escape);
    board.tab.wait_until("document.getElementById('panel').hidden");
    board.tab.type_text("x");
    board.dialog();
    assert_eq!(board.tab.focused().unwrap().name, "Cancel");
    board.tab.press(Key::Tab);
    assert_eq!(board.tab.focused().unwrap().name, "Revoke");
    board.tab.press(Key::Enter);
    board.wait_for_no_dialog();
    board.wait_for_lease(&id, "revoked", |lease| lease["epoch"] == 2);
    board.tab.assert_clean();
}

#[test]
fn everything_is_reached_by_tab_and_the_focus_is_seen() {
    let (board, id) = furnished();
    board.visit(&format!("leases?lease={id}"));
    board.wait_for_row(&id, "draining");
    board.tab.run("document.activeElement.blur(); window.scrollTo(0, 0); getSelection().removeAllRanges();");
    board.tab.press(Key::Tab);
    let mut names = Vec::new();
    // More than there are on the page.
    for _ in 0..60 {
        let focus = board.tab.run(
            "const e = document.activeElement;
             const style = getComputedStyle(e);
             const ring = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none';
             return [e.tagName, e.getAttribute('aria-label') ?? e.textContent.trim().slice(0, 40), ring];",
        );
        // From the last one to the first.
        if focus[0] == "BODY" {
            board.tab.press(Key::Tab);
            continue;
        }
        assert_eq!(focus[2], true, "the focus is not seen on {focus}");
        names.push(focus[1].as_str().unwrap().to_owned());
        board.tab.press(Key::Tab);
    }
    for wanted in ["Skip to content", "Leases", "Filter leases", "Drain", "Revoke", "Close"] {
        assert!(names.iter().any(|name| name.contains(wanted)), "{wanted} among {names:?}");
    }
}

#[test]
fn keys_are_explained_and_anything_can_be_jumped_to() {
    let (board, id) = furnished();
    board.visit("");
    board.tab.press(Key::Tab);
    board.tab.type_text("?");
    let card = board.dialog();
    for words in ["drain", "revoke", "Leases", "Esc"] {
        assert!(card.contains(words), "{words} in {card}");
    }
    board.tab.press(Key::Escape);
    board.wait_for_no_dialog();
    for (key, page) in [
        ("gq", "#/waiting"),
        ("gw", "#/why"),
        ("gr", "#/registrations"),
        ("gs", "#/slots"),
        ("gp", "#/polling"),
        ("ge", "#/events"),
    ] {
        board.tab.run("document.getElementById('main').focus()");
        board.tab.type_text(key);
        board.tab.wait_until_with("location.hash === given[0]", &[json!(page)]);
    }
    board.tab.press_with(Key::Control, 'k');
    board.tab.wait_until("document.activeElement.matches('[role=combobox]')");
    board.tab.type_text("a-resource");
    board.tab.wait_until("document.querySelectorAll('#palette-found li').length >= 2");
    board.tab.press(Key::Enter);
    board.tab.wait_until_with("document.getElementById('panel').dataset.leaseId === given[0]", &[json!(id)]);
}

#[test]
fn a_phone_shows_every_page_without_scrolling_sideways() {
    let (board, id) = furnished();
    for width in [360, 390] {
        board.tab.size(width, 780);
        for page in PAGES
            .iter()
            .copied()
            .chain([format!("leases?lease={id}").as_str(), format!("why?lease={id}").as_str()])
        {
            visit_whole(&board, page);
            let wide = board.tab.run(
                "await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
                 return [document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth, visualViewport.scale];",
            );
            let width = f64::from(width);
            let fits = |index: usize| wide[index].as_f64().unwrap() <= width;
            assert!(fits(0) && fits(1) && fits(2), "{page} at {width}: {wide}");
        }
    }
    // What an operator needs is within reach.
    board.visit(&format!("leases?lease={id}"));
    board.tab.click("button", "Revive");
    let inside = board.tab.wait_until(
        "(() => { const box = document.querySelector('dialog[open] [data-action=confirm]')?.getBoundingClientRect();
           return box && box.left >= 0 && box.right <= innerWidth && box.bottom <= innerHeight; })()",
    );
    assert_eq!(inside, true);
    board.answer_dialog("confirm");
    board.wait_for_no_dialog();
    assert_eq!(board.lease(&id)["liveness"], "alive");
}

/// Text that is wider than its place, with nothing that says so.
const CUT: &str = r#"
    const cut = [];
    for (const element of document.querySelectorAll("body *")) {
      const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!hasText || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      if (element.closest(".visually-hidden, .skip, pre, .rows-sizer [hidden], option")) continue;
      const range = document.createRange();
      range.selectNodeContents(element);
      const text = range.getBoundingClientRect();
      if (text.width === 0) continue;
      for (let box = element; box && box !== document.body; box = box.parentElement) {
        const style = getComputedStyle(box);
        if (style.textOverflow === "ellipsis" && style.overflowX !== "visible") break;
        // What can be scrolled is not lost.
        if (["auto", "scroll"].includes(style.overflowX)) break;
        if (!["hidden", "clip"].includes(style.overflowX)) continue;
        const place = box.getBoundingClientRect();
        if (text.right > place.right + 1 || text.left < place.left - 1) {
          cut.push(`${element.className || element.tagName}: ${element.textContent.trim().slice(0, 40)}`);
          break;
        }
      }
    }
    return [...new Set(cut)];
"#;

#[test]
fn no_text_is_cut_off_without_a_sign() {
    let (board, id) = furnished();
    let mut cut = Vec::new();
    for (width, height) in [(1280, 800), (390, 780)] {
        board.tab.size(width, height);
        let more = [format!("leases?lease={id}"), format!("why?lease={id}")];
        for page in PAGES.iter().copied().chain(more.iter().map(String::as_str)) {
            visit_whole(&board, page);
            let found = board.tab.run(CUT);
            cut.extend(found.as_array().unwrap().iter().map(|line| format!("{width} {page}: {line}")));
        }
    }
    assert!(cut.is_empty(), "{cut:#?}");
}

/// WCAG's contrast of text with what is behind it, for all text that is shown.
const CONTRAST: &str = r#"
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
    };
    const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat(1);
    const behind = (element) => {
      const layers = [];
      for (let e = element; e; e = e.parentElement) {
        const colour = rgba(getComputedStyle(e).backgroundColor);
        layers.push(colour);
        if (colour[3] === 1) break;
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), [1, 1, 1, 1]);
    };
    const light = (c) => {
      const [r, g, b] = c.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const poor = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.data.trim();
      const element = walker.currentNode.parentElement;
      if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
      const style = getComputedStyle(element);
      const box = element.getBoundingClientRect();
      // Off the screen until it has the focus, or for screen readers alone.
      if (box.width <= 1 || box.height <= 1 || box.bottom < 0 || element.closest(".visually-hidden, .skip, [disabled], [aria-disabled=true]")) continue;
      const back = behind(element);
      const front = over(rgba(style.color), back);
      const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${text.slice(0, 30)}`);
    }
    return [...new Set(poor)];
"#;

#[test]
fn text_stands_out_in_light_and_dark() {
    let (board, id) = furnished();
    let mut poor = Vec::new();
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        board.tab.colours(scheme);
        for page in PAGES
            .iter()
            .copied()
            .chain([format!("leases?lease={id}").as_str(), format!("why?lease={id}").as_str()])
        {
            visit_whole(&board, page);
            let found = board.tab.run(CONTRAST);
            poor.extend(found.as_array().unwrap().iter().map(|line| format!("{scheme} {page}: {line}")));
        }
        grounds.push(board.tab.run("return getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1], "dark is another colour");
    poor.dedup();
    assert!(poor.is_empty(), "{poor:#?}");
}

#[test]
fn colours_can_be_chosen_and_stay_chosen() {
    let board = Board::begin();
    board.tab.colours("light");
    board.visit("");
    let ground = || board.tab.run("return getComputedStyle(document.body).backgroundColor");
    let light = ground();
    board.tab.click("button", "Colours: as the system has them");
    board.tab.click("button", "Colours: light");
    board.tab.thing("button", "Colours: dark");
    let dark = ground();
    assert_ne!(light, dark);
    board.tab.reload();
    board.wait_until_live();
    assert_eq!(ground(), dark);
}

#[test]
fn nothing_moves_for_who_does_not_want_it() {
    let board = Board::begin();
    let features = json!([{"name": "prefers-reduced-motion", "value": "reduce"}]);
    board.tab.cdp("Emulation.setEmulatedMedia", json!({"features": features}));
    let id = board.acquire("a", "alice", json!({}));
    board.visit("leases");
    board.wait_for_row(&id, "alive");
    let moving =
        board.tab.run("return document.getAnimations().filter((a) => a.playState === 'running').length");
    assert_eq!(moving, Value::from(0));
    board
        .tab
        .wait_until("/[0-9] s$/.test(document.querySelector('.lease-row .countdown-words').textContent)");
}

#[test]
fn an_address_without_a_page_says_so() {
    let board = Board::begin();
    for address in ["nonsense", "why/printer", "constructor"] {
        board.visit(address);
        board.tab.wait_for_text("The dashboard has no page at this address");
        assert_eq!(board.tab.run("return document.title"), "No such page · Tenure");
    }
    board.tab.click_on("main a.button");
    board.tab.wait_until("location.hash === '#/' && document.querySelector('.hero')");
    board.tab.assert_clean();
}

#[test]
fn the_keys_and_the_palette_end_with_their_page() {
    let board = Board::begin();
    board.visit("");
    for open in ["#keys-open", "#palette-open"] {
        board.tab.click_on(open);
        board.dialog();
        board.tab.run("location.hash = '#/leases'");
        board.wait_for_no_dialog();
        board.tab.run("location.hash = '#/'");
        board.tab.wait_until("document.querySelector('.hero')");
    }
    board.tab.assert_clean();
}

/// Every page of a new daemon has a command to begin with, whole on a phone, and a button that copies it.
#[test]
fn every_empty_page_has_a_first_step() {
    let board = Board::begin();
    let permission = json!({"permission": {"name": "clipboard-write"}, "setting": "granted"});
    board.tab.cdp("Browser.setPermission", permission);
    board.tab.size(360, 780);
    for page in PAGES {
        board.visit(page);
        board.tab.find("main .command-line:not([hidden] *)");
        let cut = board.tab.run(
            "return [...document.querySelectorAll('main .command')].filter((one) => one.scrollWidth > one.clientWidth + 1).length",
        );
        assert_eq!(cut, json!(0), "{page}");
    }
    board.visit("leases");
    board.tab.click("button", "Copy tenure lease acquire");
    board.tab.wait_until("[...document.querySelectorAll('.copy')].some((b) => b.textContent === 'Copied')");
    board.tab.assert_clean();
}
