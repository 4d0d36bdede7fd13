// Small pieces that several pages show.

import { byId, h, svg } from "./dom.js";

const POLL = 1000;

/** The page of a placement. */
export function placementLink(key, query = {}) {
  const [namespace, name] = key.includes("/") ? key.split("/") : ["-", key];
  const search = new URLSearchParams(query).toString();
  return `/ui/placements/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${search && `?${search}`}`;
}

export function clusterLink(name) {
  return `/ui/clusters/${encodeURIComponent(name)}`;
}

export function cardLink(placement, cluster) {
  return `/ui/why?${new URLSearchParams({ placement, cluster })}`;
}

const STATES = { Scheduled: "is-good", Partial: "is-bad", Unschedulable: "is-bad", InputError: "is-bad", SchedulerError: "is-bad", BindFailed: "is-bad" };

export function stateBadge(state) {
  const sign = STATES[state] === "is-good" ? "✓ " : STATES[state] === "is-bad" ? "✗ " : "";
  return h("span", { class: `state ${STATES[state] || "is-warn"}`, "data-state": state }, sign + state);
}

export function note(text, kind = "", next = "") {
  return h("p", { class: `note ${kind}`, role: kind === "is-bad" ? "alert" : null }, text, next && ` – ${next}`);
}

/** `11:15:28` today, else with the date; UTC, as the command line has it. */
export function clockTime(at) {
  const text = at.replace("T", " ").replace(/(\.\d+)?Z$/, "");
  return text.slice(0, 10) === new Date().toISOString().slice(0, 10) ? text.slice(11) : text;
}

export function time(at) {
  return h("time", { datetime: at, title: at }, `${clockTime(at)}`);
}

/** One decision on a line of the stream. */
export function decisionLine(decision, named = true) {
  const targets = decision.targets.filter((target) => target.action).map((target) => target.cluster);
  const sum = decision.active === null ? "" : decision.wanted === null ? `on ${decision.active}` : `${decision.active} of ${decision.wanted}`;
  const places = targets.length > 6 ? `${targets.slice(0, 6).join(", ")} and ${targets.length - 6} more` : targets.join(", ");
  return h("li", { "data-seq": decision.seq },
    time(decision.at),
    named && decision.key && h("a", { href: placementLink(decision.key) }, decision.key), named && " ",
    h("b", {}, decision.result), sum && ` ${sum}`, places && ` → ${places}`,
    h("small", {}, h("br"), decision.triggers.join(", ") || "no trigger recorded"));
}

const SIGNS = [
  ["use", "in use", "M5 8.5L7.2 11L11.5 5"],
  ["pass", "passes", ""],
  ["first", "rejected, first reason", "M5 5L11 11M11 5L5 11"],
  ["later", "rejected as well", "M5 11L11 5"],
  ["kept", "in use, would be rejected now", "M8 3.5V9M8 11.5V12.5"],
  ["skip", "not run", "M5.5 8H10.5"],
];

export function legend() {
  return h("ul", { class: "legend", "aria-label": "Legend" },
    SIGNS.map(([kind, text, path]) => h("li", {},
      svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("g", { class: `cell ${kind}` }, svg("rect", { width: 16, height: 16, rx: 3 }), svg("path", { d: path }))), text)));
}

/** In the head of the page. @param {"" | "live" | "waiting"} kind */
export function showClock(text, kind = "") {
  const clock = byId("clock");
  clock.className = kind ? `clock is-${kind}` : "clock";
  clock.textContent = text;
}

export function showOutage(error) {
  if (error.name !== "AbortError") showClock(error.status ? error.message : "the API does not answer; trying again", "waiting");
  return null;
}

/** Load again every second while the page is looked at. @param {() => Promise<void>} load */
export function poll(load) {
  async function again() {
    const start = performance.now();
    if (!document.hidden) await load().catch(showOutage);
    // What is costly to ask is asked less often.
    setTimeout(again, Math.max(POLL, (performance.now() - start) * 5));
  }
  setTimeout(again, POLL);
}

/** A tooltip that follows what is pointed at. */
export function makeTip() {
  const tip = h("div", { class: "tip", role: "tooltip", hidden: true });
  return {
    show(title, lines, place) {
      if (!tip.isConnected) byId("main").append(tip);
      tip.replaceChildren(h("b", {}, title), ...lines.filter(Boolean).map((line) => h("div", {}, line)));
      tip.hidden = false;
      const box = tip.getBoundingClientRect();
      const left = Math.min(place.left, window.innerWidth - box.width - 12);
      const below = place.bottom + 10;
      tip.style.left = `${Math.max(8, left)}px`;
      tip.style.top = `${below + box.height > window.innerHeight ? Math.max(8, place.top - box.height - 10) : below}px`;
    },
    hide() {
      tip.hidden = true;
    },
  };
}
