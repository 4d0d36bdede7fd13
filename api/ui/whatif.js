// The controls of what-if: each is an edit that the simulation takes, several at once.

import { count, h, panel, say } from "./dom.js";
import { describeEdit, identify, isOfCluster, taintText, withEdit, withoutEdit } from "./edits.js";
import { placementLink } from "./parts.js";
import { getAll, post } from "./rest.js";

const MOST_CLUSTERS = 1000;
const PAUSE = 10;

/**
 * @param {HTMLElement} area
 * @param {{edits: () => any[], change: (edits: any[]) => Promise<void>, pinned: () => string}} page
 */
export function makeWhatIf(area, page) {
  let placement = null;
  let matrix = null;
  let clusters = new Map();
  let timer = 0;
  let known = "";
  let result = null;
  const outcome = h("div", { id: "whatif-result", "aria-live": "polite" });
  const controls = h("div", { id: "whatif-controls" });
  const impact = h("div", { id: "impact" });
  area.replaceChildren(panel("What if", { id: "whatif-panel" }, h("p", { class: "soft" }, "Decided again with these changes. Nothing on the hub is changed."), outcome, controls, impact));

  function set(edit, isOn) {
    clearTimeout(timer);
    timer = setTimeout(() => page.change(isOn ? withEdit(page.edits(), edit) : withoutEdit(page.edits(), edit)), PAUSE);
  }

  function find(edit) {
    return page.edits().find((other) => identify(other) === identify(edit));
  }

  async function load(newPlacement, newMatrix) {
    placement = newPlacement;
    matrix = newMatrix;
    const text = JSON.stringify([placement, [...matrix.clusters]]);
    if (matrix.clusters.length <= MOST_CLUSTERS) {
      try {
        const { items } = await getAll("v1/clusters");
        clusters = new Map(items.map((cluster) => [cluster.name, cluster]));
      } catch {
        clusters = new Map();
      }
    }
    const now = text + JSON.stringify([...clusters.values()].map((cluster) => [cluster.taints, cluster.labels]));
    if (now === known) return;
    known = now;
    draw();
  }

  function draw() {
    if (!placement) return;
    const focused = document.activeElement?.id;
    controls.replaceChildren(...[drawEdits(), drawCount(), drawSpread(), drawTaints(), drawCluster()].flat().filter(Boolean));
    impact.replaceChildren(...drawImpact());
    if (focused) document.getElementById(focused)?.focus();
  }

  function drawEdits() {
    const edits = page.edits();
    if (!edits.length) return null;
    return h("div", { class: "control" },
      h("ul", { class: "chips", id: "edits", "aria-label": "Changes" }, edits.map((edit) => h("li", { class: "chip" }, describeEdit(edit), " ",
        h("button", { type: "button", class: "plain", "aria-label": `without ${describeEdit(edit)}`, onclick: () => page.change(withoutEdit(page.edits(), edit)) }, "×")))),
      h("div", { class: "actions" }, h("button", { type: "button", id: "reset", onclick: () => page.change([]) }, "as it is")));
  }

  function slider(id, text, { value, low, high, word }, change) {
    const output = h("output", { for: id }, word(value));
    const input = h("input", { type: "range", id, min: low, max: high, step: 1, value, oninput: () => {
      output.textContent = word(Number(input.value));
      change(Number(input.value));
    } });
    return h("div", { class: "control" }, h("div", { class: "row" }, h("label", { for: id }, text), output), input);
  }

  function drawCount() {
    if (placement.type !== "PickN") return null;
    const edit = find({ op: "setCount" });
    const value = edit ? edit.value : placement.wanted;
    const high = Math.max(value, Math.min(matrix.clusters.length, Math.max(10, placement.wanted * 3)));
    return slider("whatif-count", "Clusters wanted", { value, low: Math.min(1, value), high, word: String }, (number) =>
      set({ op: "setCount", value: number }, number !== placement.wanted));
  }

  function drawSpread() {
    return (placement.spread || []).map((part, index) => {
      const key = part.topologyKey;
      const edit = find({ op: "relaxSpread", key });
      const value = edit?.maxSkew ?? part.maxSkew;
      const prefers = part.whenUnsatisfiable === "ScheduleAnyway";
      const off = Boolean(edit?.whenUnsatisfiable);
      const change = (skew, isOff) => {
        const next = { op: "relaxSpread", key };
        if (skew !== part.maxSkew) next.maxSkew = skew;
        if (isOff) next.whenUnsatisfiable = "ScheduleAnyway";
        set(next, "maxSkew" in next || isOff);
      };
      const id = `whatif-skew-${index}`;
      const box = h("input", { type: "checkbox", id: `${id}-off`, checked: off, onchange: () => change(Number(input.value), box.checked) });
      const control = slider(id, `Max skew of ${key}`, { value, low: part.maxSkew, high: Math.max(value, part.maxSkew + 8), word: String }, (skew) => change(skew, box.checked));
      const input = /** @type {any} */ (control.querySelector("input"));
      if (!prefers) control.append(h("label", { class: "check", for: box.id }, box, "only preferred"));
      return control;
    });
  }

  function listTaints() {
    const taints = new Map();
    for (const cluster of clusters.values()) for (const taint of cluster.taints) {
      const text = taintText(taint);
      taints.set(text, { taint, clusters: (taints.get(text)?.clusters || 0) + 1 });
    }
    return [...taints].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  function drawTaints() {
    const taints = listTaints().slice(0, 12);
    if (!taints.length) return null;
    return h("fieldset", { class: "control plain" }, h("legend", {}, "Tolerate"), taints.map(([text, { taint, clusters: number }], index) => {
      const edit = { op: "tolerate", key: taint.key, value: taint.value, effect: taint.effect };
      const isTolerated = (placement.tolerations || []).some((part) => tolerates(part, taint));
      const box = h("input", { type: "checkbox", role: "switch", id: `whatif-taint-${index}`, checked: isTolerated || Boolean(find(edit)), disabled: isTolerated, onchange: () => set(edit, box.checked) });
      return h("label", { class: "check", for: box.id }, box, h("span", {}, text, h("small", {}, ` ${isTolerated ? "tolerated" : `on ${count(number, "cluster")}`}`)));
    }));
  }

  function drawCluster() {
    const name = page.pinned();
    if (!name) return h("p", { class: "soft control" }, "Pin a cluster in the grid to change it here.");
    const cluster = clusters.get(name);
    const box = (id, text, edit) => {
      const input = h("input", { type: "checkbox", role: "switch", id, checked: Boolean(find(edit)), onchange: () => set(edit, input.checked) });
      return h("label", { class: "check", for: id }, input, h("span", {}, text));
    };
    return h("fieldset", { class: "control plain", id: "whatif-cluster" }, h("legend", {}, name),
      Object.entries(matrix.labels).map(([key, values], index) => {
        const given = cluster ? (cluster.labels[key] ?? null) : values[matrix.clusters.indexOf(name)];
        const edit = find({ op: "labelCluster", cluster: name, key });
        const present = edit ? edit.value : given;
        const choices = [...new Set(values.filter((value) => value !== null))].sort();
        const select = h("select", { id: `whatif-label-${index}`, onchange: () => {
          const value = select.value === "" ? null : select.value.slice(1);
          set({ op: "labelCluster", cluster: name, key, value }, value !== given);
        } }, h("option", { value: "", selected: present === null }, "(none)"), choices.map((value) => h("option", { value: `=${value}`, selected: value === present }, value)));
        return h("div", { class: "control" }, h("label", { for: select.id }, key), select);
      }),
      (cluster?.taints || []).map((taint, index) => box(`whatif-untaint-${index}`, `without taint ${taintText(taint)}`, { op: "removeTaint", cluster: name, key: taint.key, value: taint.value, effect: taint.effect })),
      box("whatif-silent", "its agent is silent", { op: "setReady", cluster: name, value: false }),
      box("whatif-leaves", "leaves the fleet", { op: "removeCluster", cluster: name }));
  }

  function drawImpact() {
    const edits = page.edits();
    if (!edits.length || !edits.every(isOfCluster)) return [];
    const body = h("div", {});
    return [h("div", { class: "actions" }, h("button", { type: "button", id: "show-impact", onclick: () => showImpact(body, placement.key, page.edits()) }, "impact on other placements")), body];
  }

  function report(simulated, problem) {
    result = simulated;
    if (problem) return outcome.replaceChildren(h("p", { class: "note is-bad", role: "alert" }, problem.message, problem.next && ` – ${problem.next}`));
    if (!result) return outcome.replaceChildren();
    const { gained, lost } = result.compare || { gained: [], lost: [] };
    const text = gained.length || lost.length ? [gained.length ? `gains ${gained.length}` : "", lost.length ? `gives up ${lost.length}` : ""].filter(Boolean).join(", ") : "stays on the same clusters";
    outcome.replaceChildren(h("p", { class: "note", id: "whatif-text" }, `${placement?.key ?? "It"} ${text}`));
    return null;
  }

  return { load, draw, report };
}

function tolerates(toleration, taint) {
  if (toleration.effect && toleration.effect !== taint.effect) return false;
  if (!toleration.key) return toleration.operator === "Exists";
  if (toleration.key !== taint.key) return false;
  return toleration.operator === "Exists" || (toleration.value || "") === (taint.value || "");
}

/** Which placements would move, asked of the API as the change of one placement with its impact. */
export async function showImpact(area, key, edits) {
  area.replaceChildren(h("p", { class: "soft", role: "status" }, "deciding every placement again …"));
  try {
    const { impact } = await post("v1/simulate", { placement: { ref: key }, edits, impact: true, limit: 1 });
    say(`${impact.moved.length} placements would move`);
    const hidden = impact.redacted ? `, ${impact.redacted} that you may not read` : "";
    area.replaceChildren(
      h("p", { class: "note", id: "impact-text" }, `${impact.moved.length} of ${count(impact.placements, "placement")} would move${hidden}${impact.truncated ? "; time was up before all were decided" : ""}`),
      h("table", { id: "impact-table" }, h("thead", {}, h("tr", {}, ["placement", "gains", "gives up", "outcome"].map((word) => h("th", { scope: "col" }, word)))),
        h("tbody", {}, impact.moved.map((moved) => {
          const before = new Set(moved.before);
          const after = new Set(moved.after);
          return h("tr", { "data-key": moved.key }, h("td", {}, h("a", { href: placementLink(moved.key) }, moved.key)),
            h("td", {}, moved.after.filter((name) => !before.has(name)).join(", ") || "–"), h("td", {}, moved.before.filter((name) => !after.has(name)).join(", ") || "–"),
            h("td", {}, moved.outcomeBefore === moved.outcomeAfter ? moved.outcomeAfter : `${moved.outcomeBefore} → ${moved.outcomeAfter}`));
        }))));
  } catch (error) {
    area.replaceChildren(h("p", { class: "note is-bad", role: "alert" }, error.message, error.next && ` – ${error.next}`));
  }
}
