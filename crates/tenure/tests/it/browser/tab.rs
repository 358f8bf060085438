//! What a test does with a page: looks, types, clicks, waits. Waiting is for a condition in the page, with a limit;
//! clicks are those of a mouse at the place where the thing is, found by role and name as a screen reader finds it.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use thirtyfour::common::command::{Command, ExtensionCommand};
use thirtyfour::error::WebDriverResult;
use thirtyfour::{By, Key, TypingData, WebDriver, WebElement};
use tokio::runtime::Runtime;

use super::chromium::{Chromium, target_directory};
use crate::run_support::{boot_ms, wait_until};

/// Nothing a page does takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// Kept in every page: what the browser would only say in its console.
const WITNESS: &str = "
    window.witnessed = [];
    addEventListener('securitypolicyviolation', (e) => witnessed.push(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
    addEventListener('error', (e) => witnessed.push(`error: ${e.message}`));
    addEventListener('unhandledrejection', (e) => witnessed.push(`rejection: ${e.reason}`));
";
/// How long one look at a condition may wait inside the page.
const LOOK_MS: u64 = 400;

/// A browser with one tab.
pub(crate) struct Tab {
    driver: WebDriver,
    runtime: Runtime,
    /// What its console said so far: the driver tells everything once.
    console: RefCell<Vec<String>>,
    /// Ends last.
    _processes: Chromium,
}

/// Something on a page as assistive technology has it.
#[derive(Clone, Debug)]
pub(crate) struct Thing {
    pub(crate) role: String,
    pub(crate) name: String,
    node: i64,
    pub(crate) properties: Value,
}

impl Tab {
    #[track_caller]
    pub(crate) fn open() -> Self {
        Self::open_with(&[])
    }

    /// The browser has more flags.
    #[track_caller]
    pub(crate) fn open_with(flags: &[&str]) -> Self {
        let processes = Chromium::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let driver = processes.open(&runtime, flags);
        let tab = Self { driver, runtime, console: RefCell::default(), _processes: processes };
        tab.cdp("Page.addScriptToEvaluateOnNewDocument", json!({"source": WITNESS}));
        // Without it the page would not have the focus, and would be told of none.
        tab.cdp("Page.bringToFront", json!({}));
        tab.size(1280, 800);
        tab
    }

    fn wait<T>(&self, future: impl Future<Output = WebDriverResult<T>>) -> WebDriverResult<T> {
        self.runtime.block_on(future)
    }

    #[track_caller]
    pub(crate) fn goto(&self, address: impl AsRef<str>) {
        self.wait(self.driver.goto(address.as_ref())).unwrap();
    }

    #[track_caller]
    pub(crate) fn reload(&self) {
        self.wait(self.driver.refresh()).unwrap();
    }

    #[track_caller]
    pub(crate) fn back(&self) {
        self.wait(self.driver.back()).unwrap();
    }

    pub(crate) fn address(&self) -> String {
        self.wait(self.driver.current_url()).unwrap().to_string()
    }

    /// Runs the body of an asynchronous function in the page; gives what it returns.
    #[track_caller]
    pub(crate) fn run(&self, body: &str) -> Value {
        self.run_with(body, &[])
    }

    /// The same with `given`, an array, in the body's scope.
    #[track_caller]
    pub(crate) fn run_with(&self, body: &str, given: &[Value]) -> Value {
        self.try_run(body, given).unwrap_or_else(|error| panic!("{error}\nin {body}"))
    }

    fn try_run(&self, body: &str, given: &[Value]) -> WebDriverResult<Value> {
        let script = format!("const given = [...arguments]; return (async () => {{ {body} }})();");
        Ok(self.wait(self.driver.execute(script, given.to_vec()))?.json().clone())
    }

    /// Waits until an expression is true in the page; gives its value.
    #[track_caller]
    pub(crate) fn wait_until(&self, expression: &str) -> Value {
        self.wait_until_with(expression, &[])
    }

    #[track_caller]
    pub(crate) fn wait_until_with(&self, expression: &str, given: &[Value]) -> Value {
        let look = format!(
            "const until = performance.now() + {LOOK_MS};
             for (;;) {{
               const value = await ({expression});
               if (value || performance.now() > until) return value ?? null;
               await new Promise((resolve) => setTimeout(resolve, 20));
             }}"
        );
        let mut last = Ok(Value::Null);
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        while boot_ms() < deadline {
            // A page that is being left answers with an error.
            last = self.try_run(&look, given);
            match &last {
                Ok(Value::Null | Value::Bool(false)) | Err(_) => {}
                Ok(Value::Number(number)) if number.as_f64() == Some(0.0) => {}
                Ok(Value::String(text)) if text.is_empty() => {}
                Ok(value) => return value.clone(),
            }
        }
        panic!("waited too long for {expression} {given:?}: {last:?}\nat {}", self.address());
    }

    /// Waits until the page shows a text somewhere.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, text: &str) {
        self.wait_until_with("document.body.innerText.includes(given[0])", &[json!(text)]);
    }

    /// Waits until the page shows a text nowhere.
    #[track_caller]
    pub(crate) fn wait_for_no_text(&self, text: &str) {
        self.wait_until_with("!document.body.innerText.includes(given[0])", &[json!(text)]);
    }

    /// All that is shown.
    pub(crate) fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// How many elements there are.
    pub(crate) fn count(&self, selector: &str) -> u64 {
        self.run_with("return document.querySelectorAll(given[0]).length", &[json!(selector)])
            .as_u64()
            .unwrap()
    }

    /// Asks the browser itself.
    #[track_caller]
    pub(crate) fn cdp(&self, method: &str, parameters: Value) -> Value {
        self.try_cdp(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(crate) fn try_cdp(&self, method: &str, parameters: Value) -> WebDriverResult<Value> {
        self.wait(self.driver.cdp().send_raw(method, parameters))
    }

    /// What a selector finds first, once it is there.
    #[track_caller]
    pub(crate) fn find(&self, selector: &str) -> WebElement {
        self.wait_until_with("Boolean(document.querySelector(given[0]))", &[json!(selector)]);
        self.wait(self.driver.find(By::Css(selector))).unwrap()
    }

    /// Clicks what a selector finds first; the driver refuses where something else is in front of it.
    #[track_caller]
    pub(crate) fn click_on(&self, selector: &str) {
        let mut refused = None;
        wait_until(&format!("a click on {selector}"), LIMIT, || {
            let clicked = self.wait(async { self.driver.find(By::Css(selector)).await?.click().await });
            refused = clicked.err();
            refused.is_none()
        });
    }

    /// Everything that assistive technology is told of, in order.
    pub(crate) fn tree(&self) -> Vec<Thing> {
        let tree = self.cdp("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        nodes.filter(|node| node["ignored"] == false).map(Thing::new).collect()
    }

    /// Things of a role whose name contains a text.
    pub(crate) fn all(&self, role: &str, name: &str) -> Vec<Thing> {
        self.tree().into_iter().filter(|thing| thing.role == role && thing.name.contains(name)).collect()
    }

    /// The first thing of a role whose name contains a text, once it is there.
    #[track_caller]
    pub(crate) fn thing(&self, role: &str, name: &str) -> Thing {
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        loop {
            if let Some(found) = self.all(role, name).into_iter().next() {
                return found;
            }
            assert!(boot_ms() < deadline, "there is no {role} {name:?} among {:#?}", self.outline());
        }
    }

    /// Role and name of everything that has a name.
    pub(crate) fn outline(&self) -> Vec<String> {
        let named =
            self.tree().into_iter().filter(|thing| !thing.name.is_empty() && thing.role != "InlineTextBox");
        named.map(|thing| format!("{} {:?}", thing.role, thing.name)).collect()
    }

    /// Clicks, with the mouse, the first thing of a role whose name contains a text.
    #[track_caller]
    pub(crate) fn click(&self, role: &str, name: &str) {
        let mut last = None;
        let deadline = boot_ms() + LIMIT.as_millis() as u64;
        while boot_ms() < deadline {
            // A page that is drawn anew under the mouse is looked at again.
            match self.try_click(&self.thing(role, name)) {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
        }
        panic!("cannot click {role} {name:?}: {last:?}");
    }

    fn try_click(&self, thing: &Thing) -> WebDriverResult<()> {
        let node = json!({"backendNodeId": thing.node});
        self.try_cdp("DOM.scrollIntoViewIfNeeded", node.clone())?;
        let quads = self.try_cdp("DOM.getContentQuads", node)?;
        let corners: Vec<f64> =
            quads["quads"][0].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        let middle = |first: usize| corners.iter().skip(first).step_by(2).sum::<f64>() / 4.0;
        let (x, y) = (middle(0), middle(1));
        for (kind, button, clicks) in
            [("mouseMoved", "none", 0), ("mousePressed", "left", 1), ("mouseReleased", "left", 1)]
        {
            let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": clicks});
            self.try_cdp("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Puts the cursor into a field, selects what is there and types over it.
    #[track_caller]
    pub(crate) fn fill(&self, role: &str, name: &str, text: &str) {
        let field = self.thing(role, name);
        self.cdp("DOM.focus", json!({"backendNodeId": field.node}));
        self.run("document.activeElement.select?.()");
        self.cdp("Input.insertText", json!({"text": text}));
    }

    /// Types at the keyboard, into whatever has the focus.
    #[track_caller]
    pub(crate) fn type_text(&self, text: &str) {
        self.keys(text);
    }

    #[track_caller]
    pub(crate) fn press(&self, key: Key) {
        self.keys(key);
    }

    /// With a key held down meanwhile.
    #[track_caller]
    pub(crate) fn press_with(&self, held: Key, key: char) {
        let chain = self.driver.action_chain_with_delay(Some(Duration::ZERO), Some(Duration::ZERO));
        self.wait(chain.key_down(held.clone()).send_keys(key).key_up(held).perform()).unwrap();
    }

    #[track_caller]
    fn keys(&self, keys: impl Into<TypingData>) {
        let chain = self.driver.action_chain_with_delay(Some(Duration::ZERO), Some(Duration::ZERO));
        self.wait(chain.send_keys(keys).perform()).unwrap();
    }

    /// What has the focus, as assistive technology has it.
    pub(crate) fn focused(&self) -> Option<Thing> {
        self.tree()
            .into_iter()
            .rfind(|thing| thing.property("focused") == Some(&json!(true)) && thing.role != "RootWebArea")
    }

    /// Role and name of an element, as the browser computes them.
    pub(crate) fn role_and_name(&self, element: &WebElement) -> [String; 2] {
        ["computedrole", "computedlabel"].map(|what| {
            let command =
                ElementQuestion { endpoint: format!("/element/{}/{what}", element.element_id()).into() };
            let answer = self.wait(self.driver.cmd(Command::ExtensionCommand(Box::new(command)))).unwrap();
            answer.value::<String>().unwrap()
        })
    }

    /// Inside, in CSS pixels; one of them is one of the picture's.
    pub(crate) fn size(&self, width: u32, height: u32) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.cdp("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Closes the tab, and goes on in another.
    #[track_caller]
    pub(crate) fn close(&self) {
        let closed = async {
            let other = self.driver.new_tab().await?;
            self.driver.close_window().await?;
            self.driver.switch_to_window(other).await
        };
        self.wait(closed).unwrap();
    }

    /// Moves the mouse over what a selector finds first.
    #[track_caller]
    pub(crate) fn hover(&self, selector: &str) {
        let element = self.find(selector);
        self.wait(self.driver.action_chain().move_to_element_center(&element).perform()).unwrap();
    }

    /// Puts another tab in front.
    pub(crate) fn hide(&self) {
        self.cdp("Target.createTarget", json!({"url": "about:blank"}));
    }

    /// What the page is told of the reader's wishes: `light` or `dark`.
    pub(crate) fn colours(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.cdp("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Everything the console said.
    pub(crate) fn console(&self) -> Vec<String> {
        if let Ok(entries) = self.wait(self.driver.browser_log()) {
            let lines = entries.into_iter().map(|entry| format!("{} {}", entry.level, entry.message));
            self.console.borrow_mut().extend(lines);
        }
        self.console.borrow().clone()
    }

    /// Fails if a page threw, broke its own policy, or asked for something that is not there.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        let witnessed = self.run("return window.witnessed ?? []");
        assert_eq!(witnessed, json!([]));
        let severe: Vec<String> =
            self.console().into_iter().filter(|line| line.starts_with("SEVERE")).collect();
        assert!(severe.is_empty(), "{severe:#?}");
    }

    /// A picture of what is in the window.
    pub(crate) fn picture(&self) -> WebDriverResult<Vec<u8>> {
        self.wait(self.driver.screenshot_as_png())
    }

    /// Leaves console and picture where a person can find them.
    fn leave_evidence(&self) {
        let name = std::thread::current().name().unwrap_or("unnamed").replace("::", "-");
        let directory = target_directory().join("browser-failures");
        let _ = fs::create_dir_all(&directory);
        let picture = directory.join(format!("{name}.png"));
        if let Ok(bytes) = self.picture() {
            let _ = fs::write(&picture, bytes);
        }
        say(&picture, &self.address_or_nothing(), &self.console());
    }

    fn address_or_nothing(&self) -> String {
        self.wait(self.driver.current_url()).map(|address| address.to_string()).unwrap_or_default()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.leave_evidence();
        }
        // The namespace ends with everything in it: the driver need not be asked to close its session.
        let _ = self.driver.clone().leak();
    }
}

#[expect(clippy::print_stderr, reason = "a test that failed tells why")]
fn say(picture: &Path, address: &str, console: &[String]) {
    eprintln!("the page at {address} is shown in {}; its console:", picture.display());
    for line in console {
        eprintln!("  {line}");
    }
}

impl Thing {
    fn new(node: &Value) -> Self {
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        Self {
            role: text(&node["role"]),
            name: text(&node["name"]),
            node: node["backendDOMNodeId"].as_i64().unwrap_or_default(),
            properties: node["properties"].clone(),
        }
    }

    /// Such as `disabled`, `checked`, `expanded`, `focused`.
    pub(crate) fn property(&self, name: &str) -> Option<&Value> {
        let properties = self.properties.as_array()?;
        properties
            .iter()
            .find(|property| property["name"] == name)
            .map(|property| &property["value"]["value"])
    }
}

/// A question about an element that the driver knows and its crate does not.
#[derive(Debug)]
struct ElementQuestion {
    endpoint: Arc<str>,
}

impl ExtensionCommand for ElementQuestion {
    fn parameters_json(&self) -> Option<Value> {
        None
    }

    fn method(&self) -> Method {
        Method::GET
    }

    fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint)
    }
}
