// The page of one cluster: what is there, what is refused and why, and what would happen without it.

import { h, panel } from "./dom.js";
import { taintText } from "./edits.js";
import { cardLink, clockTime, placementLink, poll, showClock } from "./parts.js";
import { get, getAll } from "./rest.js";
import { showImpact } from "./whatif.js";

const STATES = [["there", "Here"], ["fits", "Would fit"], ["rejected", "Refused"], ["not-named", "Not named"], ["leaving", "Leaving"], ["unknown", "Unknown"]];

export async function showCluster(main, name) {
  const path = `v1/clusters/${encodeURIComponent(name)}`;
  const areas = Object.fromEntries(["facts", "placements", "drain"].map((area) => [area, h("div", { id: area })]));
  let text = "";
  let items = [];
  await load();
  main.replaceChildren(h("div", { class: "columns" }, h("div", {}, areas.facts, areas.placements), h("div", { class: "side" }, areas.drain)));
  drawDrain();
  poll(() => load().then(() => showClock("")));

  async function load() {
    const [cluster, placements] = await Promise.all([get(path), getAll(`${path}/placements`)]);
    const now = JSON.stringify([cluster, placements.items]);
    if (now === text) return;
    text = now;
    items = placements.items;
    drawFacts(cluster);
    drawPlacements();
  }

  function drawFacts(cluster) {
    const pair = (term, value) => [h("dt", {}, term), h("dd", {}, value)];
    const table = (values) => Object.entries(values).sort().map(([key, value]) => h("li", { class: "chip" }, `${key}=${value}`));
    const usage = Object.keys(cluster.allocatable).map((resource) => h("tr", {}, h("th", { scope: "row" }, resource), [cluster.available, cluster.booked, cluster.allocatable, cluster.capacity].map((part) => h("td", { class: "number" }, String(part[resource] ?? "–")))));
    areas.facts.replaceChildren(h("section", { class: "panel", "aria-labelledby": "headline" },
      h("div", { class: "head" }, h("h1", { id: "headline" }, cluster.name),
        h("span", { class: `state ${cluster.eligible ? "is-good" : "is-bad"}` }, cluster.eligible ? "✓ may get work" : "✗ gets no new work"),
        cluster.leaving && h("span", { class: "state is-warn" }, "leaving")),
      h("dl", { class: "pair" },
        pair("heartbeat", cluster.lastHeartbeat ? h("time", { datetime: cluster.lastHeartbeat, id: "heartbeat" }, `${clockTime(cluster.lastHeartbeat)} UTC`) : "never"),
        pair("agent", `joined ${cluster.joined || "unknown"}, healthy ${cluster.healthy || "unknown"}`),
        pair("taints", cluster.taints.length ? h("ul", { class: "chips", id: "taints" }, cluster.taints.map((taint) => h("li", { class: "chip" }, taintText(taint)))) : "none"),
        pair("labels", h("ul", { class: "chips" }, table(cluster.labels))),
        pair("properties", h("ul", { class: "chips" }, table(cluster.properties)))),
      usage.length > 0 && h("table", {}, h("thead", {}, h("tr", {}, ["resource", "available", "booked", "allocatable", "capacity"].map((word, index) => h("th", { scope: "col", class: index ? "number" : null }, word)))), h("tbody", {}, usage))));
  }

  function drawPlacements() {
    areas.placements.replaceChildren(panel("Placements", {}, STATES.map(([state, title]) => {
      const chosen = items.filter((item) => item.state === state);
      if (!chosen.length && !["there", "fits", "rejected"].includes(state)) return null;
      return [h("h3", {}, `${title}: ${chosen.length}`), chosen.length > 0 && h("table", { class: "by-state", "data-state": state }, h("tbody", {}, chosen.map((item) => h("tr", { "data-key": item.key },
        h("td", {}, h("a", { href: placementLink(item.key, { cluster: name }) }, item.key)), h("td", {}, item.plugin), h("td", {}, item.why),
        h("td", {}, h("a", { href: cardLink(item.key, name) }, "why"))))))];
    })));
  }

  function drawDrain() {
    const result = h("div", { id: "drain-result" });
    const ask = (edit) => {
      const first = items.find((item) => item.state === "there") || items[0];
      if (!first) return result.replaceChildren(h("p", { class: "soft" }, "There is no placement that could move."));
      return showImpact(result, first.key, [edit]);
    };
    areas.drain.replaceChildren(panel("What if it were gone", {}, h("p", { class: "soft" }, "Every placement is decided again without it. Nothing on the hub is changed."),
      h("div", { class: "actions" },
        h("button", { type: "button", id: "drain-leaves", onclick: () => ask({ op: "removeCluster", cluster: name }) }, "it leaves the fleet"),
        h("button", { type: "button", id: "drain-silent", onclick: () => ask({ op: "setReady", cluster: name, value: false }) }, "it falls silent"),
        h("button", { type: "button", id: "drain-taint", onclick: () => ask({ op: "addTaint", cluster: name, key: "drain", effect: "NoSchedule" }) }, "it is tainted")), result));
  }
}
