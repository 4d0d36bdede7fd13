// Signing in: with the code of a one-time link, or with a token. Neither is kept in the page.

import { h } from "./dom.js";

export async function showSignIn(main) {
  const code = location.hash.slice(1);
  const next = findNext();
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    return redeem({ code });
  }
  return drawForm("");

  async function redeem(body) {
    const answer = await send({ headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    if (answer.status === 202) return drawConfirmation({ ...body, user: (await answer.json()).user });
    if (answer.ok) return location.replace(next);
    return drawForm(await explain(answer));
  }

  /** A link may come from somebody else: it must not sign its reader in as them unnoticed. */
  function drawConfirmation(body) {
    const confirm = h("button", { type: "button", class: "strong", onclick: () => redeem(body) }, `Sign in as ${body.user}`);
    main.replaceChildren(h("section", { class: "panel signin" }, h("h1", {}, "Sign in"),
      h("p", {}, "This link signs in as ", h("strong", {}, body.user), ". Go on only if that is you."), confirm));
    confirm.focus();
  }

  function drawForm(problem) {
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const message = h("p", { class: "note is-bad", role: "alert", hidden: !problem }, problem);
    const form = h("form", { onsubmit: async (event) => {
      event.preventDefault();
      const token = input.value.trim();
      input.value = "";
      const answer = await send({ headers: { authorization: `Bearer ${token}` } });
      if (answer.ok) return location.replace(next);
      message.textContent = await explain(answer);
      message.hidden = false;
      input.focus();
    } }, h("label", { for: "token" }, "Token that the hub accepts"), input, h("button", { type: "submit", class: "strong" }, "Sign in"), message);
    main.replaceChildren(h("section", { class: "panel signin" }, h("h1", {}, "Sign in"),
      h("p", { class: "soft" }, "On the machine that runs it, ", h("code", {}, "fleet ui"), " opens this page signed in."), form));
    input.focus();
  }
}

function send(options) {
  return fetch("/v1/session", { method: "POST", credentials: "same-origin", ...options });
}

async function explain(answer) {
  const body = await answer.json().catch(() => ({}));
  return [body.detail || body.title || `HTTP ${answer.status}`, body.next].filter(Boolean).join(" – ");
}

/** Where to go on: only pages of the explorer. */
function findNext() {
  const next = new URLSearchParams(location.search).get("next") || "";
  return next.startsWith("/ui/") && !next.startsWith("/ui/signin") ? next : "/ui/";
}
