// The whole fleet: a strip for each placement, a column for each cluster.

import { byId, count, focusOn, h, panel, svg } from "./dom.js";
import { clockTime, clusterLink, decisionLine, makeTip, placementLink, poll, showClock, time } from "./parts.js";
import { makeGroups } from "./groups.js";
import { follow, get } from "./rest.js";
import { makeWaiting } from "./waiting.js";

const MOST_LIVE = 50;
const MOST_ELEMENTS = 40000;
const NAME = 190;

export async function showFleet(main) {
  const parameters = new URLSearchParams(location.search);
  /** @type {Record<string, any>} what is shown; `fleet` and `status` as the API answers */
  const state = { group: parameters.get("group"), show: parameters.get("show") || "", text: "", fleet: null, status: null };
  const tip = makeTip();
  const areas = Object.fromEntries(["figures", "strips", "waiting", "groups", "trouble", "silent", "moves", "live"].map((name) => [name, h("div", { id: name })]));
  const waiting = makeWaiting(areas.waiting);
  const groups = makeGroups(areas.groups);
  await load();
  if (state.group === null) state.group = findGroup();
  main.replaceChildren(h("h1", { class: "unseen" }, "Fleet"), h("div", { class: "stack" }, areas.figures, areas.strips),
    h("div", { class: "columns below" }, h("div", {}, areas.waiting, areas.groups, areas.trouble, areas.silent), h("div", { class: "side" }, areas.moves, areas.live)));
  draw();
  listen();
  poll(async () => {
    if (await load()) draw();
    else drawStatus();
  });

  async function load() {
    const [fleet, status] = await Promise.all([get("v1/matrix"), get("v1/status"), waiting.load(), groups.load()]);
    const text = JSON.stringify(fleet);
    const isNew = text !== state.text;
    Object.assign(state, { text, fleet, status });
    return isNew;
  }

  function findGroup() {
    const keys = listKeys();
    return keys.includes("region") ? "region" : (keys[0] ?? "");
  }

  /** Labels that divide the fleet into a readable number of groups. */
  function listKeys() {
    const values = new Map();
    for (const cluster of state.fleet.clusters) for (const [key, value] of Object.entries(cluster.labels)) {
      if (!values.has(key)) values.set(key, new Set());
      values.get(key).add(value);
    }
    return [...values].filter(([, set]) => set.size > 1 && set.size <= 60).map(([key]) => key).sort();
  }

  /** Heartbeats change it all the time, and the strips need not be drawn again for them. */
  function drawStatus() {
    const focused = document.activeElement?.closest?.("[data-show]")?.getAttribute("data-show");
    drawFigures();
    drawTrouble();
    drawMoves();
    drawClusters();
    if (focused !== null && focused !== undefined) focusOn(areas.figures, `[data-show="${focused}"]`);
  }

  function draw() {
    drawStatus();
    drawStrips();
    const query = new URLSearchParams();
    if (state.group) query.set("group", state.group);
    if (state.show) query.set("show", state.show);
    history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
  }

  function drawFigures() {
    const { placements, clusters, moves, moreMoves } = state.status;
    const silent = clusters.total - clusters.eligible;
    const figure = (show, number, text, kind = "") => {
      const href = `?${new URLSearchParams({ group: state.group, ...(show && { show }) })}`;
      return h("li", { class: number ? kind : "" }, h("a", { href, "data-show": show, "aria-current": state.show === show ? "true" : null, onclick: (event) => {
        event.preventDefault();
        if (show === "moves") return byId("moves").scrollIntoView({ block: "start" });
        state.show = show;
        draw();
        focusOn(areas.figures, `[data-show="${show}"]`);
      } }, h("b", {}, String(number)), text));
    };
    areas.figures.replaceChildren(h("ul", { class: "figures", "aria-label": "At a glance" },
      figure("", placements.total, placements.total === 1 ? "placement" : "placements"),
      figure("short", placements.short, "short of clusters", "is-bad"),
      figure("undecided", placements.undecided, "not decided", "is-warn"),
      figure("clusters", clusters.total, clusters.total === 1 ? "cluster" : "clusters"),
      figure("ineligible", silent, "take no new work", "is-bad"),
      figure("tainted", clusters.tainted, "with taints", "is-warn"),
      figure("moves", moves.length + moreMoves, "moves in the last hour")));
  }

  function choosePlacements() {
    const { placements } = state.fleet;
    if (state.show === "short") return placements.filter((placement) => placement.fulfilled === false);
    if (state.show === "undecided") return placements.filter((placement) => placement.fulfilled === null);
    return placements;
  }

  function isBright(cluster) {
    if (state.show === "ineligible") return !cluster.eligible;
    if (state.show === "tainted") return cluster.state === "tainted";
    return true;
  }

  function drawStrips() {
    const { clusters, redacted } = state.fleet;
    const placements = choosePlacements();
    const focused = /** @type {HTMLElement | null | undefined} */ (document.activeElement?.closest?.(".strip-cell"));
    const scrolled = areas.strips.querySelector(".grid-scroll")?.scrollLeft || 0;
    const select = h("select", { id: "group", onchange: (event) => ((state.group = event.target.value), draw(), byId("group").focus()) },
      h("option", { value: "" }, "nothing"), listKeys().map((key) => h("option", { value: key, selected: key === state.group }, key)));
    const large = clusters.length * placements.length > MOST_ELEMENTS;
    areas.strips.replaceChildren(h("section", { class: "panel", "aria-labelledby": "h-strips" },
      h("div", { class: "head" }, h("h2", { id: "h-strips" }, "Placements on clusters"), h("label", { class: "soft" }, "group by ", select),
        h("span", { class: "soft right" }, "trouble first; arrow keys move, Enter explains")),
      !placements.length ? h("p", { class: "soft" }, "No placement to show.") : large ? drawTable(placements) : drawCells(placements),
      h("ul", { class: "legend", "aria-label": "Legend" }, [["use", "there", "M5 8.5L7.2 11L11.5 5"], ["pass", "not there", ""], ["later", "not there, and takes no new work or has taints", "M5 11L11 5"]].map(([kind, text, path]) =>
        h("li", {}, svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("g", { class: `cell strip ${kind}` }, svg("rect", { width: 16, height: 16, rx: 3 }), svg("path", { d: path }))), text))),
      state.fleet.more > 0 && h("p", { class: "soft" }, `${count(state.fleet.more, "more placement")} not shown; those in trouble come first`),
      redacted > 0 && h("p", { class: "soft" }, `${count(redacted, "cluster")} that you may not read ${redacted === 1 ? "is" : "are"} not shown`)));
    const scroll = areas.strips.querySelector(".grid-scroll");
    if (scroll) scroll.scrollLeft = scrolled;
    if (focused) focusOn(areas.strips, `.strip-cell[data-placement="${CSS.escape(focused.dataset.placement || "")}"][data-cluster="${CSS.escape(focused.dataset.cluster || "")}"]`);
  }

  function groupClusters() {
    const groups = new Map();
    state.fleet.clusters.forEach((cluster, index) => {
      const name = state.group ? (cluster.labels[state.group] ?? "") : "";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(index);
    });
    return [...groups].sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : a < b ? -1 : 1)).map(([name, indices]) => ({ name: name || (state.group ? `(no ${state.group})` : ""), indices }));
  }

  function drawCells(placements) {
    const { clusters } = state.fleet;
    const size = clusters.length > 600 ? 4 : clusters.length > 150 ? 8 : 14;
    const gap = size > 4 ? 2 : 1;
    const line = Math.max(size + gap, 22);
    const columns = [];
    const titles = [];
    let x = 2;
    for (const { name, indices } of groupClusters()) {
      const start = x;
      for (const index of indices) {
        columns.push({ index, x });
        x += size + gap;
      }
      const wide = x - start - gap;
      const letters = Math.max(3, Math.floor((wide + 8) / 6.6));
      if (name) titles.push(svg("g", { class: "group" }, svg("text", { x: start, y: 12 }, name.length > letters ? `${name.slice(0, letters - 1)}…` : name), svg("title", {}, `${name}: ${count(indices.length, "cluster")}`), svg("line", { x1: start, x2: start + wide, y1: 17, y2: 17 })));
      x += 10;
    }
    const top = 24;
    const rows = placements.map((placement, row) => {
      const bound = new Set(placement.bound);
      const y = top + row * line + (line - size) / 2;
      return svg("g", { role: "row", "aria-label": placement.key }, columns.map(({ index, x: left }, position) => {
        const cluster = clusters[index];
        const isThere = bound.has(index);
        const isTroubled = Boolean(cluster.state) || !cluster.eligible;
        const kind = isThere ? "use" : isTroubled ? "later" : "pass";
        const words = `${placement.key} on ${cluster.name}: ${isThere ? "there" : "not there"}${cluster.state ? `; cluster ${cluster.state}` : ""}`;
        return svg("g", { role: "gridcell", class: `cell strip strip-cell ${kind}${isBright(cluster) ? "" : " is-dim"}`, tabindex: row || position ? -1 : 0, transform: `translate(${left} ${y})`, "aria-label": words,
          "data-placement": placement.key, "data-cluster": cluster.name, "data-row": row, "data-position": position, "data-kind": kind },
          svg("rect", { width: size, height: size, rx: Math.min(3, size / 4) }),
          size < 12 || kind === "pass" ? null : svg("path", { d: isThere ? `M${size * 0.3} ${size * 0.52}L${size * 0.45} ${size * 0.68}L${size * 0.72} ${size * 0.32}` : `M${size * 0.32} ${size * 0.68}L${size * 0.68} ${size * 0.32}` }));
      }));
    });
    const height = top + placements.length * line + 6;
    const picture = svg("svg", { class: "grid", role: "grid", width: x, height, viewBox: `0 0 ${x} ${height}`, "aria-label": "Placements by clusters", "aria-rowcount": placements.length, "aria-colcount": columns.length }, titles, rows);
    const names = h("div", { class: "strip-names" }, placements.map((placement) => {
      const short = placement.fulfilled === false;
      const sum = placement.wanted === null ? String(placement.selected) : `${placement.selected}/${placement.wanted}`;
      return h("a", { href: placementLink(placement.key), title: placement.reason || placement.key, class: short ? "is-short" : "" }, h("span", {}, `${short ? "✗ " : ""}${placement.key}`), h("b", {}, sum));
    }));
    names.style.paddingTop = `${top}px`;
    names.style.setProperty("--line", `${line}px`);
    names.style.setProperty("--name", `${NAME}px`);
    const cell = (event) => /** @type {any} */ (event.target).closest?.(".strip-cell");
    const point = (event) => {
      const found = cell(event);
      if (!found) return tip.hide();
      const cluster = clusters[columns[Number(found.dataset.position)].index];
      tip.show(found.getAttribute("aria-label"), [Object.entries(cluster.labels).slice(0, 8).map(([key, value]) => `${key}=${value}`).join("  ")], found.getBoundingClientRect());
    };
    picture.addEventListener("pointerover", point);
    picture.addEventListener("focusin", point);
    picture.addEventListener("pointerleave", tip.hide);
    picture.addEventListener("focusout", tip.hide);
    picture.addEventListener("click", (event) => cell(event) && open(cell(event)));
    picture.addEventListener("keydown", (event) => {
      const found = cell(event);
      if (!found) return;
      const [row, position] = [Number(found.dataset.row), Number(found.dataset.position)];
      const to = { ArrowRight: [row, position + 1], ArrowLeft: [row, position - 1], ArrowDown: [row + 1, position], ArrowUp: [row - 1, position], Home: [row, 0], End: [row, columns.length - 1] }[event.key];
      if (event.key === "Enter") open(found);
      else if (to) {
        const next = rows[Math.max(0, Math.min(rows.length - 1, to[0]))].children[Math.max(0, Math.min(columns.length - 1, to[1]))];
        found.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus({ preventScroll: true });
        next.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else return;
      event.preventDefault();
    });
    return h("div", { class: "grid-frame" }, names, h("div", { class: "grid-scroll" }, picture));
  }

  function open(cell) {
    location.assign(placementLink(cell.dataset.placement, { cluster: cell.dataset.cluster }));
  }

  /** More cells than a page should hold: sums. */
  function drawTable(placements) {
    return h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "placement"), h("th", {}, "type"), h("th", {}, "clusters"), h("th", {}, "wanted"))),
      h("tbody", {}, placements.map((placement) => h("tr", {}, h("td", {}, h("a", { href: placementLink(placement.key) }, placement.key)), h("td", {}, placement.type), h("td", { class: "number" }, String(placement.selected)), h("td", { class: "number" }, placement.wanted === null ? "all" : String(placement.wanted))))));
  }

  function drawTrouble() {
    const { trouble, moreTrouble } = state.status;
    areas.trouble.replaceChildren(panel("Placements in trouble", {}, !trouble.length ? h("p", { class: "soft" }, "None.") :
      h("ul", { class: "list", id: "trouble-list" }, trouble.map((item) => h("li", {}, h("a", { href: placementLink(item.key) }, item.key), " ", h("span", { class: "soft" }, [item.wanted === null ? "" : `${item.selected} of ${item.wanted}:`, item.why || item.reason].filter(Boolean).join(" "))))),
      moreTrouble > 0 && h("p", { class: "soft" }, `and ${moreTrouble} more`)));
  }

  function drawMoves() {
    const { moves, moreMoves } = state.status;
    areas.moves.replaceChildren(panel("Moves of the last hour", {}, !moves.length ? h("p", { class: "soft" }, "None.") :
      h("ul", { class: "list" }, moves.map((move) => h("li", {}, time(move.at), h("a", { href: placementLink(move.key) }, move.key), " ",
        [...move.gained.map((name) => `+${name}`), ...move.lost.map((name) => `−${name}`)].slice(0, 12).join(" "),
        move.gained.length + move.lost.length > 12 && " …", h("small", {}, h("br"), move.triggers.join(", "))))),
      moreMoves > 0 && h("p", { class: "soft" }, `and ${moreMoves} more`)));
  }

  function drawClusters() {
    const { troubledClusters, clusters, moreClusters } = state.status;
    areas.silent.replaceChildren(panel("Clusters that take less work", {}, !troubledClusters.length ? h("p", { class: "soft" }, "None.") :
      h("table", { id: "cluster-list" }, h("thead", {}, h("tr", {}, ["cluster", "state", "taints", "placements", "last heartbeat"].map((word) => h("th", { scope: "col", class: word === "placements" ? "number" : null }, word)))),
        h("tbody", {}, troubledClusters.map((cluster) => h("tr", {}, h("td", {}, h("a", { href: clusterLink(cluster.name) }, cluster.name)), h("td", {}, cluster.state),
          h("td", {}, cluster.taints.map((taint) => `${taint.key}${taint.value && `=${taint.value}`}:${taint.effect}`).join(", ") || "–"), h("td", { class: "number" }, String(cluster.placements)), h("td", {}, cluster.lastHeartbeat ? clockTime(cluster.lastHeartbeat) : "never"))))),
      moreClusters > 0 && h("p", { class: "soft" }, `and ${count(moreClusters, "more cluster")}`),
      clusters.redacted > 0 && h("p", { class: "soft" }, `${count(clusters.redacted, "cluster")} that you may not read`)));
  }

  function listen() {
    const list = h("ol", { class: "list live", reversed: true, "aria-label": "Decisions", tabindex: 0 });
    const empty = h("p", { class: "soft" }, "No decision since this page was opened.");
    areas.live.replaceChildren(panel("Live decisions", {}, empty, list));
    get("v1/decisions", { limit: 1 }).then(() => undefined, (error) => error).then((error) => {
      if (error && error.status === 403) {
        empty.textContent = `${error.message}${error.next ? ` – ${error.next}` : ""}`;
        return;
      }
      follow({}, (decision) => {
        empty.remove();
        list.prepend(decisionLine(decision));
        while (list.children.length > MOST_LIVE) list.lastElementChild?.remove();
      }, (word) => showClock(word, word === "live" ? "live" : "waiting"));
    });
  }
}

/** One placement and one cluster, to share. */
export async function showCard(main, placement, cluster) {
  const { fetchText } = await import("./placement.js");
  const text = await fetchText(`v1/clusters/${encodeURIComponent(cluster)}/why-not`, placement);
  main.replaceChildren(h("section", { class: "panel" }, h("h1", {}, `${placement} on ${cluster}`),
    h("div", { class: "card" }, h("pre", { id: "card-text" }, text)),
    h("p", { class: "facts" }, h("a", { href: placementLink(placement, { cluster }) }, "the placement"), h("a", { href: clusterLink(cluster) }, "the cluster"), h("code", {}, `fleet why-not ${placement} ${cluster}`))));
}

