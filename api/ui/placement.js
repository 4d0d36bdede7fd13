// The page of one placement: why it is where it is, and what would change that.

import { byId, copy, count, focusOn, h, panel, say, svg } from "./dom.js";
import { buildCommand, editsText, parseEdits, withEdit } from "./edits.js";
import { drawGrid } from "./grid.js";
import { groupLink, groupName } from "./groups.js";
import { countFunnel, describeCell, describeStanding, firstRejection, readMatrix, readSimulated, verdictAt } from "./matrix.js";
import { cardLink, clockTime, clusterLink, decisionLine, legend, makeTip, note, placementLink, poll, showClock, showOutage, stateBadge, time } from "./parts.js";
import { follow, get, placementPath, post } from "./rest.js";
import { makeTimeline } from "./timeline.js";
import { makeWaiting } from "./waiting.js";
import { makeWhatIf } from "./whatif.js";

const MOST_CHIPS = 60;
const MOST_DOMAINS = 40;
const MOST_LIVE = 50;

/** @param {string} key `name`, or `namespace/name` */
export async function showPlacement(main, key) {
  const parameters = new URLSearchParams(location.search);
  /** @type {Record<string, any>} what is shown; answers as the API gives them, verdicts as a Matrix */
  const state = {
    group: parameters.get("group"),
    pinned: parameters.get("cluster") || "",
    edits: parseEdits(parameters.get("edits")),
    attempt: "",
    filter: "",
    placement: null, why: null, matrix: null, past: null, text: "", simulated: null, problem: null, shown: null,
  };
  const tip = makeTip();
  /** @type {AbortController | null} */
  let simulation = null;
  const areas = Object.fromEntries(["waiting", "decision", "funnel", "grid", "domains", "fixes", "whatif", "history", "live"].map((name) => [name, h("div", { id: name })]));
  const whatIf = makeWhatIf(areas.whatif, { edits: () => state.edits, change: changeEdits, pinned: () => state.pinned });
  const timeline = makeTimeline(areas.history, key, { choose: chooseAttempt });

  const waiting = makeWaiting(areas.waiting, key);
  await Promise.all([loadPlacement(), loadMatrix(), loadWhy(), waiting.load()]);
  if (state.group === null) state.group = findGroup();
  main.replaceChildren(h("div", { class: "columns" },
    h("div", {}, areas.decision, areas.waiting, areas.funnel, areas.grid, areas.domains, areas.history),
    h("div", { class: "side" }, areas.whatif, areas.fixes, areas.live)));
  draw();
  const seen = await timeline.load().catch(showOutage);
  if (state.edits.length) await simulate();
  const asked = parameters.get("attempt");
  if (asked && !state.edits.length) await chooseAttempt(asked);
  if (state.pinned) await showCard();
  whatIf.load(state.placement, state.matrix);
  listen(seen);
  poll(async () => {
    const [isNew] = await Promise.all([loadMatrix(), waiting.load()]);
    if (isNew) await refresh();
  });

  // --- loading ---

  async function loadPlacement() {
    state.placement = await get(placementPath(key));
  }

  async function loadWhy() {
    state.why = await get(placementPath(key, "/why"), { limit: 1, attempt: state.attempt || null });
  }

  /** Whether it is different from before. */
  async function loadMatrix() {
    const body = await get("v1/matrix", { placement: key });
    const text = JSON.stringify(body);
    const isNew = text !== state.text;
    state.text = text;
    if (isNew) state.matrix = readMatrix(body);
    return isNew;
  }

  function findGroup() {
    const known = Object.keys(state.matrix.labels);
    const spread = (state.placement.spread || []).map((part) => part.topologyKey).find((name) => known.includes(name));
    return spread || known.find((name) => new Set(state.matrix.labels[name]).size > 1) || "";
  }

  async function refresh() {
    await Promise.all([loadPlacement(), state.attempt ? null : loadWhy()]);
    if (state.edits.length) await simulate();
    else if (!state.attempt) draw();
    whatIf.load(state.placement, state.matrix);
  }

  function listen(seen) {
    const list = h("ol", { class: "list live", reversed: true, "aria-label": "Decisions", tabindex: 0 });
    let paused = false;
    const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? "resume" : "pause";
    } }, "pause");
    const empty = h("p", { class: "soft" }, "No decision since this page was opened.");
    areas.live.replaceChildren(panel("Live decisions", {}, h("div", { class: "actions" }, button), empty, list));
    follow({ placement: key, since: seen ?? null }, async (decision) => {
      if (!paused) {
        empty.remove();
        list.prepend(decisionLine(decision, false));
        while (list.children.length > MOST_LIVE) list.lastElementChild?.remove();
      }
      say(`${key}: ${decision.result}`);
      try {
        await loadMatrix();
        await refresh();
        await timeline.load();
      } catch (error) {
        showOutage(error);
      }
    }, (word) => showClock(word, word === "live" ? "live" : "waiting"));
  }

  // --- what is shown ---

  function draw() {
    const { answer, matrix, isNow } = (state.shown = choose());
    drawDecision(answer, isNow);
    drawFunnel(matrix);
    drawTheGrid(matrix);
    drawDomains(matrix);
    drawFixes();
    keepAddress();
  }

  function choose() {
    if (state.simulated) {
      const { answer, matrix } = state.simulated;
      return { answer, matrix: readSimulated(matrix, state.matrix, state.edits), isNow: false };
    }
    if (state.attempt) return { answer: state.why, matrix: state.past, isNow: false };
    return { answer: state.why, matrix: state.matrix, isNow: true };
  }

  function drawDenial(denial) {
    const said = denial.message ? `: ${denial.message}` : "";
    return h("li", {}, h("a", { href: clusterLink(denial.cluster) }, denial.cluster), ` denied by ${denial.by} (${denial.rule}) at `, time(denial.at), " UTC, until ", time(denial.until), ` UTC${said}`);
  }

  function drawDecision(answer, isNow) {
    const { verdict, attempt } = answer;
    const compare = state.simulated?.compare;
    const gained = new Set(compare?.gained || []);
    const lost = compare?.lost || [];
    const wanted = verdict.wanted === null ? count(verdict.inUse, "cluster") : `${verdict.inUse} of ${count(verdict.wanted, "cluster")} wanted`;
    const verb = state.simulated ? "would be on" : state.attempt ? "was on" : "is on";
    const { matrix } = state.shown;
    const names = isNow ? state.placement.targets : [...matrix.bound].map((column) => matrix.clusters[column]);
    const chips = names.filter((name) => !gained.has(name)).sort();
    const more = Math.max(0, chips.length - MOST_CHIPS);
    areas.decision.replaceChildren(h("section", { class: "panel", "aria-labelledby": "headline" },
      h("div", { class: "head" },
        h("h1", { id: "headline" }, `${key} ${verb} ${wanted}`), stateBadge(verdict.state),
        h("button", { type: "button", class: "right", onclick: (event) => copy(location.href, event.target) }, "copy link")),
      h("p", { class: "sentence", id: "sentence" }, verdict.summary),
      verdict.error && note(verdict.error, "is-bad"),
      verdict.problems.map((problem) => note(`${problem.field}: ${problem.message}`, "is-bad", problem.repair)),
      verdict.moreProblems > 0 && note(`… and ${verdict.moreProblems} more`, "is-bad"),
      verdict.missing.length > 0 && note(`no cluster has the name ${verdict.missing.join(", ")}`, "is-bad"),
      answer.gate && drawGate(answer.gate, isNow),
      isNow && answer.denials.length > 0 && h("ul", { id: "denials", class: "list", "aria-label": "Denials" }, answer.denials.map(drawDenial)),
      isNow && answer.preempting && drawPreempting(answer.preempting),
      isNow && describeVain(answer) && h("p", { id: "in-vain", class: "note" }, describeVain(answer)),
      isNow && answer.group && drawGroup(answer.group),
      (answer.remarks || []).map((remark) => note(remark.text || remark.message || "")),
      state.problem && note(state.problem.message, "is-bad", state.problem.next),
      h("ul", { class: "chips", "aria-label": "Clusters in use" },
        [...gained].map((name) => h("li", {}, h("a", { class: "chip gained", href: clusterLink(name) }, `+ ${name}`))),
        lost.map((name) => h("li", {}, h("a", { class: "chip lost", href: clusterLink(name) }, `− ${name}`))),
        chips.slice(0, MOST_CHIPS).map((name) => h("li", {}, h("a", { class: "chip use", href: clusterLink(name) }, name))),
        more > 0 && h("li", { class: "soft" }, `and ${more} more`)),
      state.placement.redacted > 0 && h("p", { class: "soft" }, `${count(state.placement.redacted, "more cluster")} that you may not read`),
      h("p", { class: "facts" },
        h("span", {}, verdict.placementType),
        state.simulated && h("span", {}, "simulated; nothing is changed"),
        !state.simulated && attempt.n !== null && h("span", {}, `attempt ${attempt.n}, `, attempt.evaluatedOn === "recorded" ? ["decided at ", time(attempt.at), " UTC"] : "evaluated on the fleet as it is now"),
        state.attempt && h("button", { type: "button", class: "plain", onclick: () => chooseAttempt("") }, "back to now"),
        verdict.since && h("span", {}, `${verdict.state} since ${clockTime(verdict.since)} UTC`),
        h("span", {}, `profile ${attempt.profile}`),
        answer.queue && answer.queue.space !== "none" && h("span", {}, `queue: ${answer.queue.space}`),
        attempt.digest && h("span", {}, `digest ${attempt.digest.slice(0, 12)}`))));
  }

  function drawGate(gate, isNow) {
    const clear = (name) => h("button", { type: "button", onclick: () => clearGate(name) }, `clear gate ${name}`);
    return h("div", { id: "gate" }, note(`held by ${gate.by}: ${gate.message}`),
      isNow && gate.clearable.length > 0 && h("div", { class: "actions" }, gate.clearable.map(clear)));
  }

  function drawPreempting({ clusters, redacted }) {
    const victims = ({ victims: names, hidden }) => [names.map((name, index) => [index > 0 && ", ", h("a", { href: placementLink(name) }, name)]), hidden > 0 && `${names.length ? ", and " : ""}${hidden} that you may not read`, names.length + hidden === 0 && "nothing"];
    return h("div", { id: "preempting" }, note("waits for room that is being made"),
      h("table", {}, h("thead", {}, h("tr", {}, ["room is made on", "phase", "since", "for it leave"].map((word) => h("th", { scope: "col" }, word)))),
        h("tbody", {}, clusters.map((room) => h("tr", { "data-cluster": room.cluster },
          h("td", {}, h("a", { href: clusterLink(room.cluster) }, room.cluster)), h("td", {}, room.phase), h("td", {}, time(room.since), " UTC"), h("td", {}, victims(room)))))),
      redacted > 0 && h("p", { class: "soft" }, `room is made on ${count(redacted, "cluster")} that you may not read`));
  }

  /** Why nothing is evicted for it. Of a group it stands in the message of that. */
  function describeVain({ attempt: { postFilter, notes }, gate, group, preempting }) {
    const hasSearched = postFilter && !postFilter.nomination.length && !gate && !group && !preempting;
    return hasSearched && notes.DefaultPreemption?.preemption;
  }

  function drawGroup(group) {
    return h("p", { id: "group-of", class: "note" }, "belongs to group ", h("a", { href: groupLink(group) }, groupName(group)),
      `: ${group.state}, ${group.placed} of ${count(group.members, "member")} bound, ${group.needed} needed`, group.message && ` – ${group.message}`);
  }

  async function clearGate(name) {
    try {
      await post(placementPath(key, `/gates/${encodeURIComponent(name)}/clear`), {});
      state.problem = null;
      say(`gate ${name} cleared`);
    } catch (error) {
      state.problem = error;
    }
    await refresh();
  }

  function drawFunnel(matrix) {
    const { total, rejected, fits, inUse } = countFunnel(matrix);
    let left = total;
    const steps = matrix.plugins.map((plugin, line) => {
      const before = left;
      left -= rejected[line];
      const isOn = state.filter === plugin;
      return h("li", {}, h("button", {
          type: "button", "aria-pressed": String(isOn), disabled: rejected[line] === 0, "data-plugin": plugin, "data-count": rejected[line],
          title: `${plugin} excludes ${rejected[line]} first`, onclick: () => choosePart(isOn ? "" : plugin),
        },
        bar([["left", left], ["gone", before - left]], total), h("b", {}, rejected[line] ? `−${rejected[line]}` : "–"), h("span", {}, splitWords(plugin))));
    });
    const end = (name, number, text, kind) => h("li", {}, h("button", {
        type: "button", "aria-pressed": String(state.filter === name), "data-part": name, "data-count": number, disabled: number === 0,
        onclick: () => choosePart(state.filter === name ? "" : name),
      }, bar([[kind, number]], total), h("b", {}, String(number)), h("span", {}, text)));
    const most = Math.max(...rejected, 0);
    const names = matrix.plugins.filter((_, line) => most > 0 && rejected[line] === most);
    areas.funnel.replaceChildren(panel("From the whole fleet to the choice", {},
      h("p", { class: "soft", id: "most" }, most ? `${names.join(" and ")} ${names.length > 1 ? "exclude" : "excludes"} most: ${most} of ${count(total, "cluster")}` : "no rule excludes a cluster"),
      h("ol", { class: "funnel" },
        h("li", {}, h("div", { class: "end", "data-part": "total", "data-count": total }, bar([["left", total]], total), h("b", {}, String(total)), h("span", {}, total === 1 ? "cluster in the fleet" : "clusters in the fleet"))),
        steps, end("use", inUse, "in use", "chosen"), end("fits", fits, fits === 1 ? "other fits" : "others fit", "left"))));
  }

  function bar(parts, total) {
    const scale = (number) => (total ? (number / total) * 40 : 0);
    let y = 40;
    const blocks = parts.map(([kind, number]) => {
      const tall = number ? Math.max(1.5, scale(number)) : 0;
      y -= tall;
      return svg("rect", { class: kind, x: 0, y, width: 100, height: tall });
    });
    return svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, blocks);
  }

  function choosePart(part) {
    state.filter = part;
    draw();
    focusOn(areas.funnel, `[data-plugin="${CSS.escape(part)}"], [data-part="${CSS.escape(part)}"]`);
  }

  function drawTheGrid(matrix) {
    const focused = /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest?.(".cell"));
    const listCells = () => /** @type {NodeListOf<SVGElement>} */ (areas.grid.querySelectorAll(".cell[data-cluster]"));
    const scrolled = areas.grid.querySelector(".grid-scroll")?.scrollLeft || 0;
    const before = new Map([...listCells()].map((cell) => [`${cell.dataset.cluster}\n${cell.dataset.plugin}`, cell.dataset.kind]));
    const marks = new Map([...(state.simulated?.compare?.gained || []).map((name) => [name, "gained"]), ...(state.simulated?.compare?.lost || []).map((name) => [name, "lost"])]);
    const select = h("select", { id: "group", onchange: (event) => ((state.group = event.target.value), draw(), byId("group").focus()) },
      h("option", { value: "" }, "nothing"), Object.keys(matrix.labels).map((name) => h("option", { value: name, selected: name === state.group }, name)));
    const card = areas.grid.querySelector("#card") || h("div", { id: "card" });
    const options = { group: state.group, marks, filter: pickFilter(matrix), pinned: state.pinned, point, leave: tip.hide, pin, explain };
    const frame = /** @type {any} */ (areas.grid.querySelector(".grid-frame"));
    const head = h("div", { class: "head" }, h("h2", { id: "h-grid" }, "Every cluster, every rule"),
      h("label", { class: "soft" }, "group by ", select),
      state.filter && h("button", { type: "button", class: "plain", onclick: () => choosePart("") }, "show all"),
      h("span", { class: "soft right" }, "arrow keys move, Enter pins, c copies the command"));
    const redacted = h("p", { class: "soft", id: "grid-redacted" }, matrix.redacted > 0 && `${count(matrix.redacted, "cluster")} that you may not read ${matrix.redacted === 1 ? "is" : "are"} not shown`);
    if (frame?.lastChild.repaint?.(matrix, options)) {
      areas.grid.querySelector(".head")?.replaceWith(head);
      byId("grid-redacted").replaceWith(redacted);
    } else areas.grid.replaceChildren(h("section", { class: "panel", "aria-labelledby": "h-grid" }, head, drawGrid(matrix, options), legend(), redacted, card));
    const scroll = /** @type {any} */ (areas.grid.querySelector(".grid-scroll"));
    scroll.scrollLeft = scrolled;
    if (focused) scroll.restoreFocus(focused.dataset.cluster, focused.dataset.plugin);
    if (before.size) for (const cell of listCells()) {
      if (before.get(`${cell.dataset.cluster}\n${cell.dataset.plugin}`) !== cell.dataset.kind) cell.classList.add("changed");
    }
  }

  function pickFilter(matrix) {
    if (!state.filter) return null;
    if (state.filter === "use") return (column) => matrix.bound.has(column);
    return (column) => {
      if (matrix.bound.has(column)) return false;
      const first = firstRejection(matrix, column);
      return state.filter === "fits" ? first < 0 : matrix.plugins[first] === state.filter;
    };
  }

  function point(line, column, place) {
    const { matrix } = state.shown;
    const labels = Object.entries(matrix.labels).map(([name, values]) => values[column] !== null && `${name}=${values[column]}`).filter(Boolean);
    const others = matrix.plugins.filter((_, other) => other !== line && ![0, 255].includes(verdictAt(matrix, other, column)));
    tip.show(describeCell(matrix, line, column), [
      describeStanding(matrix, column) + (matrix.scores[column] === null || matrix.scores[column] === undefined ? "" : `, score ${matrix.scores[column]}`),
      others.length > 0 && `also rejected by ${others.join(", ")}`, labels.join("  "),
    ], place);
  }

  async function pin(column) {
    const name = state.shown.matrix.clusters[column];
    state.pinned = state.pinned === name ? "" : name;
    keepAddress();
    draw();
    whatIf.draw();
    await showCard();
  }

  function explain(column) {
    const command = `fleet why-not ${key} ${state.shown.matrix.clusters[column]}`;
    navigator.clipboard?.writeText(command).then(() => say(`copied: ${command}`), () => say("copy failed"));
    byId("clock").textContent = `copied: ${command}`;
  }

  async function showCard() {
    const card = byId("card");
    if (!card) return;
    card.replaceChildren();
    if (!state.pinned) return;
    const name = state.pinned;
    try {
      const answer = await fetchText(`v1/clusters/${encodeURIComponent(name)}/why-not`, key);
      if (state.pinned !== name) return;
      byId("card").replaceChildren(h("div", { class: "card", role: "status" },
        h("div", { class: "head" }, h("b", {}, name), h("a", { href: clusterLink(name) }, "cluster"), h("a", { href: cardLink(key, name) }, "card to share"),
          h("button", { type: "button", class: "plain right", onclick: () => pin(state.shown.matrix.clusters.indexOf(name)) }, "unpin")),
        h("pre", {}, answer)));
    } catch (error) {
      byId("card").replaceChildren(note(error.message, "is-bad", error.next));
    }
  }

  function drawDomains(matrix) {
    const parts = (state.placement.spread || []).filter((part) => matrix.labels[part.topologyKey]);
    if (!parts.length) return areas.domains.replaceChildren();
    areas.domains.replaceChildren(panel("Domains against their skew", {}, parts.map((part) => {
      const skew = skewOf(part);
      const counts = new Map();
      matrix.clusters.forEach((_, column) => {
        const value = matrix.labels[part.topologyKey][column];
        if (value === null) return;
        counts.set(value, (counts.get(value) || 0) + (matrix.bound.has(column) ? 1 : 0));
      });
      const lowest = Math.min(...counts.values());
      const most = Math.max(lowest + skew, ...counts.values(), 1);
      const isPreferred = part.whenUnsatisfiable === "ScheduleAnyway";
      return h("details", { open: !isPreferred && counts.size <= MOST_DOMAINS },
        h("summary", {}, `${part.topologyKey}: max skew ${skew}, ${isPreferred ? "preferred" : "required"}, ${count(counts.size, "domain")}`),
        h("div", { class: "domains", role: "list" }, [...counts].sort().map(([value, number]) => {
          const full = number >= lowest + skew;
          const text = `${number} of at most ${lowest + skew}`;
          const edge = ((lowest + skew) / most) * 100;
          return h("div", { role: "listitem", class: "contents", "data-domain": value, "data-count": number },
            h("span", {}, value),
            svg("svg", { viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" },
              svg("rect", { class: "track", width: 100, height: 14 }), svg("rect", { class: full ? "full" : "have", width: (number / most) * 100, height: 14 }),
              svg("line", { class: "edge", x1: edge, x2: edge, y1: 0, y2: 14, "vector-effect": "non-scaling-stroke" })),
            h("span", { class: "soft" }, full ? `${text}, full` : text));
        })));
    })));
  }

  function skewOf(part) {
    const edit = state.simulated && state.edits.find((other) => other.op === "relaxSpread" && other.key === part.topologyKey && other.maxSkew);
    return edit ? edit.maxSkew : part.maxSkew;
  }

  function drawFixes() {
    const { fixes } = state.why;
    const list = (fixes || []).map((fix) => {
      const commands = fix.edits.map((edit) => buildCommand(edit, state.placement));
      const isWhole = commands.every((command) => command !== null);
      return h("li", {}, h("b", {}, fix.text), h("div", { class: "soft" }, describeEffect(fix.effect), fix.needs && `; needs ${fix.needs}`),
        h("div", { class: "actions" },
          h("button", { type: "button", onclick: () => changeEdits(fix.edits.reduce(withEdit, [])) }, "try"),
          h("button", { type: "button", onclick: (event) => copy(isWhole ? commands.join("\n") : editsText(fix.edits), event.target) }, isWhole ? "copy as patch" : "copy as edits")));
    });
    const wanted = state.placement.wanted;
    areas.fixes.replaceChildren(panel("What would help", {}, list.length ? h("ul", { class: "list", id: "fix-list" }, list)
      : h("p", { class: "soft" }, state.placement.fulfilled ? "Nothing is missing." : "No change of one or two settings was found that helps."),
      state.placement.fulfilled && wanted !== null && h("div", { class: "actions" }, h("button", { type: "button", id: "one-more", onclick: () => changeEdits([{ op: "setCount", value: wanted + 1 }]) }, "try one cluster more"))));
  }

  function describeEffect(effect) {
    if (!effect) return "";
    const targets = effect.targets || effect.gained || [];
    return [effect.outcome, targets.length ? `on ${targets.slice(0, 8).join(", ")}${targets.length > 8 ? " …" : ""}` : ""].filter(Boolean).join(" ");
  }

  // --- what if ---

  async function changeEdits(edits) {
    state.edits = edits;
    keepAddress();
    whatIf.draw();
    if (state.attempt) {
      state.attempt = "";
      await Promise.all([loadMatrix(), loadWhy()]);
    }
    await simulate();
  }

  async function simulate() {
    simulation?.abort();
    state.problem = null;
    if (!state.edits.length) {
      state.simulated = null;
      whatIf.report(null, null);
      draw();
      return;
    }
    const mine = (simulation = new AbortController());
    try {
      const answer = await post("v1/simulate", { placement: { ref: key }, edits: state.edits, matrix: true, limit: 1 }, mine.signal);
      if (mine !== simulation) return;
      state.simulated = answer;
    } catch (error) {
      if (error.name === "AbortError" || mine !== simulation) return;
      state.simulated = null;
      state.problem = error;
    }
    whatIf.report(state.simulated, state.problem);
    draw();
    if (state.simulated) say(state.simulated.answer.verdict.summary);
  }

  // --- history ---

  async function chooseAttempt(id) {
    state.attempt = id;
    state.edits = [];
    state.simulated = null;
    state.problem = null;
    try {
      if (id) {
        const [why, past] = await Promise.all([get(placementPath(key, "/why"), { attempt: id, limit: 1, fixes: "none" }), get("v1/matrix", { placement: key, attempt: id })]);
        if (state.attempt !== id) return;
        Object.assign(state, { why, past: readMatrix(past) });
      } else await Promise.all([loadMatrix(), loadWhy()]);
    } catch (error) {
      state.attempt = "";
      state.problem = error;
      await loadWhy();
    }
    whatIf.draw();
    draw();
  }

  function keepAddress() {
    const query = new URLSearchParams();
    if (state.group) query.set("group", state.group);
    if (state.pinned) query.set("cluster", state.pinned);
    if (state.attempt) query.set("attempt", state.attempt);
    if (state.edits.length) query.set("edits", JSON.stringify(state.edits));
    const search = query.toString();
    history.replaceState(null, "", location.pathname + (search && `?${search}`));
  }
}

/** Why or why not, in the words of the command line. */
export async function fetchText(path, placement) {
  const { address, Problem } = await import("./rest.js");
  const answer = await fetch(address(path, { placement }), { headers: { accept: "text/plain" }, credentials: "same-origin" });
  if (!answer.ok) throw new Problem(answer.status, await answer.json().catch(() => ({})));
  return answer.text();
}

/** `ClusterAffinity` as `Cluster Affinity`, so that it can wrap. */
function splitWords(name) {
  return name.replace(/([a-z])([A-Z])/g, "$1 $2");
}
