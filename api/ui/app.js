// Shows the page of the address.

import { byId, h } from "./dom.js";
import { showCluster } from "./cluster.js";
import { showCard, showFleet } from "./fleet.js";
import { showGroup } from "./groups.js";
import { note, placementLink } from "./parts.js";
import { showPlacement } from "./placement.js";
import { get, getAll } from "./rest.js";
import { showSignIn } from "./signin.js";

const MOST_CHOICES = 1000;

async function show() {
  const main = byId("main");
  const [page, ...rest] = location.pathname.replace(/^\/ui\/?/, "").split("/").map(decodeURIComponent);
  const parameters = new URLSearchParams(location.search);
  try {
    if (page === "signin") {
      name("Sign in");
      await showSignIn(main);
    } else if (page === "placements" && rest.length >= 2) {
      const key = rest[0] === "-" ? rest[1] : `${rest[0]}/${rest[1]}`;
      name(key);
      const shown = showPlacement(main, key);
      offerPlacements(key);
      await shown;
    } else if (page === "clusters" && rest[0]) {
      name(rest[0]);
      await showCluster(main, rest[0]);
    } else if (page === "groups" && rest.length >= 2) {
      name(rest[0] === "-" ? rest[1] : `${rest[0]}/${rest[1]}`);
      await showGroup(main, rest[0], rest[1]);
    } else if (page === "why" && parameters.get("placement") && parameters.get("cluster")) {
      name(`${parameters.get("placement")} on ${parameters.get("cluster")}`);
      await showCard(main, parameters.get("placement"), parameters.get("cluster"));
    } else {
      name("");
      await showFleet(main);
    }
  } catch (error) {
    main.replaceChildren(h("section", { class: "panel" }, h("h1", {}, "This cannot be shown"), note(error.message, "is-bad", error.next), h("p", { class: "facts" }, h("a", { href: "/ui/" }, "to the fleet"))));
  }
  main.setAttribute("aria-busy", "false");
  if (page !== "signin") await showUser();
}

function name(text) {
  document.title = text ? `${text} – Fleet` : "Fleet";
  byId("where").replaceChildren(...(text ? [h("span", { class: "soft", "aria-hidden": "true" }, "/"), h("b", { id: "here" }, text)] : []));
}

/** Who looks at this, and the way out; nothing where no session is kept, as behind `kubectl`. */
async function showUser() {
  const session = await get("v1/session").catch(() => null);
  if (!session || !session.expires) return;
  const leave = async () => {
    await fetch("/v1/session", { method: "DELETE", credentials: "same-origin" });
    location.assign("/ui/signin");
  };
  byId("user").replaceChildren(h("span", { class: "soft" }, session.user), h("button", { type: "button", class: "plain", onclick: leave }, "sign out"));
}

/** A drop-down in the head, where the list is no longer than one. */
async function offerPlacements(key) {
  const { items } = await getAll("v1/placements").catch(() => ({ items: [] }));
  if (items.length < 2 || items.length > MOST_CHOICES) return;
  const select = h("select", { id: "here", "aria-label": "Placement", onchange: () => location.assign(placementLink(select.value)) },
    items.map((item) => h("option", { value: item.key, selected: item.key === key }, item.fulfilled === false ? `${item.key} ✗` : item.key)));
  byId("here").replaceWith(select);
}

show();
