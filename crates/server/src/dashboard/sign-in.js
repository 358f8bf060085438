// The page at /sign-in. Takes the code from the fragment of the address, which no server and no Referer sees, and
// redeems it when the button is clicked: a page that leads here cannot sign anybody in by itself.

import { Refusal, ask, keepPage } from "./api.js";

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const code = location.hash.slice(1);
// The address in the history, and whatever is copied from it, has no code.
history.replaceState(null, "", location.pathname);

const button = /** @type {HTMLButtonElement} */ (byId("sign-in"));

/** @param {unknown} error */
function why(error) {
  if (error instanceof Refusal && error.status === 401) {
    return "This code was used already, or it is older than a minute. Run tenure open again.";
  }
  return error instanceof Error ? error.message : String(error);
}

byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  byId("error").textContent = "";
  try {
    const { page } = await ask("/v1/sign_in/redeem", { method: "POST", body: { code } });
    keepPage(page);
    location.replace("/");
  } catch (error) {
    byId("error").textContent = why(error);
    // The daemon has taken a code that it refused; after anything else another click may help.
    button.disabled = error instanceof Refusal && error.status === 401;
  }
});

byId("daemon").textContent = location.host;
byId("with-code").hidden = code === "";
byId("without-code").hidden = code !== "";
button.hidden = code === "";
button.focus();
