// Attempts of a placement by time: a dot each, to choose, to scrub through, and to compare.

import { count, h, panel, svg } from "./dom.js";
import { clockTime, time } from "./parts.js";
import { get, placementPath } from "./rest.js";

const WIDTH = 1000;
const MARGIN = 16;
const MOST = 200;

/**
 * @param {HTMLElement} area
 * @param {string} key the placement
 * @param {{choose: (attempt: string) => Promise<void>}} page
 */
export function makeTimeline(area, key, page) {
  let attempts = [];
  let chosen = -1;
  let compared = null;

  /** Loads the attempts and draws them; the `seq` of the newest. */
  async function load() {
    const body = await get(placementPath(key, "/history"), { limit: MOST });
    const id = attempts[chosen]?.id;
    attempts = [...body.items].reverse();
    chosen = id ? attempts.findIndex((attempt) => attempt.id === id) : -1;
    draw();
    return attempts.length ? attempts[attempts.length - 1].seq : null;
  }

  function draw() {
    if (!attempts.length) {
      return area.replaceChildren(panel("History", {}, h("p", { class: "soft" }, "No attempt is recorded.")));
    }
    const position = h("output", { for: "scrub", id: "scrub-text" }, chosen < 0 ? "now" : label(attempts[chosen]));
    const scrub = h("input", { type: "range", id: "scrub", min: 0, max: attempts.length, step: 1, value: chosen < 0 ? attempts.length : chosen, "aria-valuetext": position.textContent, oninput: () => choose(Number(scrub.value)) });
    const focused = document.activeElement?.id;
    const result = area.querySelector("#diff") || h("div", { id: "diff" });
    area.replaceChildren(panel("History", {},
      drawDots(),
      h("div", { class: "control" }, h("div", { class: "row" }, h("label", { for: "scrub" }, "As of attempt"), position), scrub),
      drawComparison(), result));
    if (focused === "scrub") scrub.focus();
  }

  function label(attempt) {
    return `attempt ${attempt.n}, ${clockTime(attempt.at)} UTC: ${attempt.result}${attempt.active === null ? "" : `, ${count(attempt.active, "cluster")}`}`;
  }

  function drawDots() {
    const times = attempts.map((attempt) => Date.parse(attempt.at));
    const [first, last] = [times[0], times[times.length - 1]];
    const place = (at) => MARGIN + (last > first ? (at - first) / (last - first) : 0.5) * (WIDTH - 2 * MARGIN);
    const dots = attempts.map((attempt, index) => {
      const moves = attempt.targets.filter((target) => target.action).length;
      const radius = 5 + Math.min(6, Math.sqrt(moves) * 1.6);
      const kind = !attempt.fulfilled ? "short" : moves || attempt.outcome === "Shrink" ? "good" : "same";
      const x = place(times[index]);
      const shape = kind === "short" ? svg("rect", { class: kind, x: x - radius, y: 30 - radius, width: 2 * radius, height: 2 * radius, rx: 1 }) : svg("circle", { class: kind, cx: x, cy: 30, r: radius });
      const go = () => choose(index);
      return svg("g", { class: `dot${index === chosen ? " is-chosen" : ""}`, role: "button", tabindex: -1, "data-attempt": attempt.id, "data-n": attempt.n, onclick: go,
        onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), go()) },
        shape, svg("title", {}, `${label(attempt)}${attempt.triggers.length ? `\n${attempt.triggers.join(", ")}` : ""}`));
    });
    const text = (x, anchor, words) => svg("text", { x, y: 66, "text-anchor": anchor }, words);
    return svg("svg", { class: "timeline", viewBox: `0 0 ${WIDTH} 78`, role: "group", "aria-label": `${count(attempts.length, "attempt")}; use the slider to go through them` },
      svg("line", { class: "axis", x1: MARGIN, x2: WIDTH - MARGIN, y1: 30, y2: 30 }), dots,
      first === last ? text(WIDTH / 2, "middle", clockTime(attempts[0].at)) : [text(MARGIN, "start", clockTime(attempts[0].at)), text(WIDTH - MARGIN, "end", clockTime(attempts[attempts.length - 1].at))]);
  }

  /** The slider stays the same element, so that it can be dragged on. */
  async function choose(index) {
    chosen = index >= attempts.length ? -1 : index;
    const text = chosen < 0 ? "now" : label(attempts[chosen]);
    const scrub = /** @type {HTMLInputElement} */ (area.querySelector("#scrub"));
    scrub.value = String(chosen < 0 ? attempts.length : chosen);
    scrub.setAttribute("aria-valuetext", text);
    /** @type {HTMLElement} */ (area.querySelector("#scrub-text")).textContent = text;
    area.querySelectorAll(".dot").forEach((dot, at) => dot.classList.toggle("is-chosen", at === chosen));
    await page.choose(chosen < 0 ? "" : attempts[chosen].id);
  }

  function drawComparison() {
    if (attempts.length < 2) return null;
    const [from, to] = compared || findLastMove();
    const pick = (id, value) => h("select", { id }, attempts.map((attempt) => h("option", { value: attempt.n, selected: attempt.n === value }, `attempt ${attempt.n}, ${clockTime(attempt.at)}`)));
    const before = pick("diff-from", from);
    const after = pick("diff-to", to);
    return h("div", { class: "tools" }, h("label", { class: "soft", for: "diff-from" }, "compare"), before, h("label", { class: "soft", for: "diff-to" }, "with"), after,
      h("button", { type: "button", id: "diff-show", onclick: () => ((compared = [Number(before.value), Number(after.value)]), showDiff()) }, "what changed"));
  }

  /** The last attempt that moved something, with the one before it. */
  function findLastMove() {
    const moves = (attempt) => attempt.outcome === "Shrink" || attempt.targets.some((target) => target.action);
    const last = attempts.findLastIndex((attempt, at) => at > 0 && moves(attempt));
    const at = last < 0 ? attempts.length - 1 : last;
    return [attempts[at - 1].n, attempts[at].n];
  }

  async function showDiff() {
    const result = /** @type {HTMLElement} */ (area.querySelector("#diff"));
    const [from, to] = compared;
    try {
      const { comparison, before, after } = await get(placementPath(key, "/history"), { diff: `${Math.min(from, to)}..${Math.max(from, to)}` });
      const { gained, lost, transitions, changes } = comparison;
      result.replaceChildren(h("div", { class: "card" },
        h("p", {}, h("b", {}, `attempt ${before.n}`), " ", time(before.at), " → ", h("b", {}, `attempt ${after.n}`), " ", time(after.at), after.triggers.length > 0 && h("small", {}, ` ${after.triggers.join(", ")}`)),
        h("ul", { class: "chips" }, gained.map((name) => h("li", { class: "chip gained" }, `+ ${name}`)), lost.map((name) => h("li", { class: "chip lost" }, `− ${name}`))),
        !gained.length && !lost.length && h("p", { class: "soft" }, "the same clusters"),
        (transitions.length > 0 || changes.length > 0) && h("table", {}, h("tbody", {},
          changes.map((change) => h("tr", {}, h("td", {}, change.what), h("td", {}, words(change.before)), h("td", {}, words(change.after)))),
          transitions.map((part) => h("tr", {}, h("td", {}, count(part.count, "cluster")), h("td", {}, part.before), h("td", {}, part.after)))))));
    } catch (error) {
      result.replaceChildren(h("p", { class: "note is-bad", role: "alert" }, error.message));
    }
  }

  return { load };
}

function words(value) {
  return value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}
