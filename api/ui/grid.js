// The grid of every cluster × every rule: elements for hundreds of clusters, a canvas for thousands.

import { h, svg, say } from "./dom.js";
import { cellKind, describeCell, describeStanding, firstRejection, groupColumns } from "./matrix.js";

const MOST_ELEMENTS = 600;
const GROUP_GAP = 10;
const HEADING = 18;
const SCORE = 34;
const GLYPHS = {
  use: (s) => `M${s * 0.3} ${s * 0.52}L${s * 0.45} ${s * 0.68}L${s * 0.72} ${s * 0.32}`,
  kept: (s) => `M${s * 0.5} ${s * 0.22}V${s * 0.58}M${s * 0.5} ${s * 0.74}V${s * 0.8}`,
  first: (s) => `M${s * 0.3} ${s * 0.3}L${s * 0.7} ${s * 0.7}M${s * 0.7} ${s * 0.3}L${s * 0.3} ${s * 0.7}`,
  later: (s) => `M${s * 0.32} ${s * 0.68}L${s * 0.68} ${s * 0.32}`,
  skip: (s) => `M${s * 0.35} ${s * 0.5}H${s * 0.65}`,
  pass: () => "",
};

/**
 * @param {import("./matrix.js").Matrix} matrix
 * @param {{group: string, marks: Map<string, string>, filter: ((column: number) => boolean) | null, pinned: string,
 *   point: (line: number, column: number, place: DOMRect | null) => void, leave: () => void,
 *   pin: (column: number) => void, explain: (column: number) => void}} options
 */
export function drawGrid(matrix, options) {
  const isLarge = needsCanvas(matrix);
  const layout = layOut(matrix, options.group, isLarge);
  const names = h(
    "div",
    { class: "rules", "aria-hidden": "true" },
    matrix.plugins.map((plugin) => h("span", { title: plugin }, plugin)),
    h("span", { class: "score" }, "score"),
  );
  names.style.paddingTop = `${layout.top}px`;
  names.style.setProperty("--line", `${layout.size + layout.gap}px`);
  const scroll = isLarge ? drawCanvas(matrix, layout, options) : drawElements(matrix, layout, options);
  return h("div", { class: "grid-frame" }, names, scroll);
}

function needsCanvas(matrix) {
  return matrix.clusters.length > MOST_ELEMENTS;
}

function layOut(matrix, group, isLarge) {
  const size = isLarge ? 10 : matrix.clusters.length > 150 ? 12 : 16;
  const gap = 2;
  const columns = [];
  const groups = [];
  let x = 2;
  for (const { name, columns: members } of groupColumns(matrix, group)) {
    const start = x;
    for (const column of members) {
      columns.push({ column, x });
      x += size + gap;
    }
    groups.push({ name, x: start, width: x - start, size: members.length });
    x += GROUP_GAP;
  }
  const longest = Math.max(0, ...matrix.clusters.map((name) => Math.min(name.length, 18)));
  const top = HEADING + (isLarge ? 4 : Math.round(longest * 5.2) + 12);
  const height = top + matrix.plugins.length * (size + gap) + SCORE;
  return { size, gap, columns, groups, width: x + (isLarge ? 0 : 50), top, height };
}

function scaleScores(matrix) {
  const known = matrix.scores.filter((score) => score !== null);
  const low = Math.min(0, ...known);
  const high = Math.max(1, ...known);
  return (score) => (score === null || score === undefined ? 0 : 2 + ((score - low) / (high - low)) * (SCORE - 12));
}

function clip(name, length) {
  return name.length > length ? `${name.slice(0, length - 1)}…` : name;
}

/**
 * Where an arrow key leads, as [line, position]; null for other keys.
 *
 * @returns {[number, number] | null}
 */
function step(key, line, position, lines, columns, control) {
  if (key === "ArrowRight") return [line, Math.min(position + 1, columns - 1)];
  if (key === "ArrowLeft") return [line, Math.max(position - 1, 0)];
  if (key === "ArrowDown") return [Math.min(line + 1, lines - 1), position];
  if (key === "ArrowUp") return [Math.max(line - 1, 0), position];
  if (key === "Home") return [control ? 0 : line, 0];
  if (key === "End") return [control ? lines - 1 : line, columns - 1];
  if (key === "PageDown") return [line, Math.min(position + 10, columns - 1)];
  if (key === "PageUp") return [line, Math.max(position - 10, 0)];
  return null;
}

// --- elements --------------------------------------------------------------------------------------------------------

function change(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Elements for a layout, which `paint` gives the content of a matrix: what is the same is not touched. */
function drawElements(matrix, layout, options) {
  const { size, gap, columns, groups, width, top, height } = layout;
  const tall = matrix.plugins.length * (size + gap);
  let shown = { matrix, columns, options };
  const headings = columns.map(({ x }) => svg("g", { role: "columnheader" },
    svg("rect", { x: x - 2, y: top - 3, width: size + 4, height: tall + 4, rx: 3 }),
    svg("text", { transform: `translate(${x + size / 2 + 3} ${top - 5}) rotate(-58)` }), svg("title")));
  const cells = matrix.plugins.map((plugin, line) => columns.map(({ x }, position) =>
    svg("g", { role: "gridcell", tabindex: line || position ? -1 : 0, transform: `translate(${x} ${top + line * (size + gap)})`, "data-line": line, "data-position": position, "data-plugin": plugin },
      svg("rect", { width: size, height: size, rx: 3 }), svg("path"))));
  const bars = columns.map(({ x }) => svg("g", { role: "gridcell" }, svg("rect", { x: x + 2, width: size - 4, rx: 1 }), svg("title")));
  const titles = groups.filter(({ name }) => name).map(({ name, x, width: wide, size: members }) =>
    svg("g", { class: "group" },
      svg("text", { x, y: 12 }, clip(name, Math.max(4, Math.floor(wide / 6.2)))),
      svg("title", {}, `${name}: ${members} clusters`),
      svg("line", { x1: x, x2: x + wide - gap, y1: 17, y2: 17 })));
  const picture = svg("svg", {
      class: "grid", role: "grid", width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": "Clusters by rules",
      "aria-rowcount": matrix.plugins.length + 2, "aria-colcount": columns.length,
    },
    titles, svg("g", { role: "row" }, headings), matrix.plugins.map((plugin, line) => svg("g", { role: "row", "aria-label": plugin }, cells[line])),
    svg("g", { role: "row", "aria-label": "score" }, bars));
  paint();

  function paint() {
    const scale = scaleScores(shown.matrix);
    shown.columns.forEach(({ column }, position) => {
      const name = shown.matrix.clusters[column];
      const dim = shown.options.filter !== null && !shown.options.filter(column) ? " is-dim" : "";
      paintHeading(headings[position], name, shown.matrix.bound.has(column) ? " is-use" : "", dim);
      const first = firstRejection(shown.matrix, column);
      const standing = describeStanding(shown.matrix, column);
      cells.forEach((line, at) => paintCell(line[position], at, column, cellKind(shown.matrix, at, column, first), standing, dim));
      paintBar(bars[position], `${name}: score ${shown.matrix.scores[column] ?? "none"}`, scale(shown.matrix.scores[column]), dim);
    });
  }

  function paintHeading(heading, name, use, dim) {
    const mark = shown.options.marks.get(name);
    const [frame, text, title] = heading.children;
    change(heading, "class", `name${use}${mark ? ` ${mark}` : ""}${shown.options.pinned === name ? " is-pinned" : ""}${dim}`);
    change(heading, "data-cluster", name);
    change(frame, "class", `frame ${mark || "is-none"}`);
    const words = `${mark === "gained" ? "+ " : mark === "lost" ? "− " : ""}${clip(name, 18)}`;
    if (text.textContent !== words) text.textContent = words;
    if (title.textContent !== name) title.textContent = name;
  }

  function paintCell(cell, line, column, kind, standing, dim) {
    change(cell, "class", `cell ${kind}${dim}`);
    change(cell, "aria-label", `${describeCell(shown.matrix, line, column)}; ${standing}`);
    change(cell, "data-cluster", shown.matrix.clusters[column]);
    change(cell, "data-kind", kind);
    change(cell.lastChild, "d", kind === "pass" ? null : GLYPHS[kind](size));
  }

  function paintBar(group, label, high, dim) {
    const [bar, title] = group.children;
    change(group, "aria-label", label);
    change(bar, "class", `bar${dim}`);
    change(bar, "y", String(top + tall + SCORE - 4 - high));
    change(bar, "height", String(high));
    if (title.textContent !== label) title.textContent = label;
  }

  let active = [0, 0];
  const cellOf = (event) => /** @type {Element} */ (event.target).closest?.(".cell");
  /** @returns {[number, number]} */
  const read = (cell) => [Number(cell.dataset.line), Number(cell.dataset.position)];

  function focus([line, position]) {
    const [was, at] = active;
    cells[was][at].setAttribute("tabindex", "-1");
    active = [line, position];
    const cell = cells[line][position];
    cell.setAttribute("tabindex", "0");
    cell.focus({ preventScroll: true });
    cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  function point(event) {
    const cell = cellOf(event);
    if (!cell) return options.leave();
    const [line, position] = read(cell);
    return options.point(line, shown.columns[position].column, cell.getBoundingClientRect());
  }

  picture.addEventListener("pointerover", point);
  picture.addEventListener("pointerleave", () => options.leave());
  picture.addEventListener("focusin", point);
  picture.addEventListener("focusout", () => options.leave());
  picture.addEventListener("click", (event) => {
    const cell = cellOf(event);
    const heading = /** @type {Element} */ (event.target).closest?.(".name");
    if (cell) options.pin(shown.columns[read(cell)[1]].column);
    else if (heading) options.pin(shown.columns[headings.indexOf(heading)].column);
  });
  picture.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    const [line, position] = read(cell);
    const next = step(event.key, line, position, cells.length, columns.length, event.ctrlKey);
    if (next) focus(next);
    else if (event.key === "Enter" || event.key === " ") options.pin(shown.columns[position].column);
    else if (event.key === "c" && !event.ctrlKey && !event.metaKey) options.explain(shown.columns[position].column);
    else return;
    event.preventDefault();
  });
  const scroll = h("div", { class: "grid-scroll" }, picture);
  scroll.restoreFocus = (cluster, plugin) => {
    const position = shown.columns.findIndex(({ column }) => shown.matrix.clusters[column] === cluster);
    const line = shown.matrix.plugins.indexOf(plugin);
    if (position >= 0 && line >= 0) focus([line, position]);
  };
  /** Shows another matrix with the same places; false where the places are others. */
  scroll.repaint = (newMatrix, newOptions) => {
    const next = layOut(newMatrix, newOptions.group, needsCanvas(newMatrix));
    if (describePlaces(newMatrix, next) !== describePlaces(matrix, layout)) return false;
    shown = { matrix: newMatrix, columns: next.columns, options: newOptions };
    paint();
    return true;
  };
  return scroll;
}

function describePlaces(matrix, { size, groups, top, height, width }) {
  return JSON.stringify([matrix.plugins, size, groups, top, height, width]);
}

// --- canvas ----------------------------------------------------------------------------------------------------------

function drawCanvas(matrix, layout, options) {
  const { size, gap, columns, groups, width, top, height } = layout;
  const scale = scaleScores(matrix);
  const firsts = matrix.clusters.map((_, column) => firstRejection(matrix, column));
  const spoken = h("div", { role: "gridcell", id: "grid-active" });
  const canvas = h("canvas", { class: "grid", role: "grid", tabindex: 0, "aria-label": "Clusters by rules", "aria-activedescendant": "grid-active",
    "aria-rowcount": matrix.plugins.length, "aria-colcount": columns.length }, h("div", { role: "row" }, spoken));
  const spacer = h("div", { class: "spacer" });
  const scroll = h("div", { class: "grid-scroll is-large" }, canvas, spacer);
  spacer.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  let active = [0, 0];
  let queued = false;

  function draw() {
    queued = false;
    const style = getComputedStyle(scroll);
    const colour = (name) => style.getPropertyValue(name).trim();
    const ratio = window.devicePixelRatio || 1;
    const wide = scroll.clientWidth;
    if (!wide) return;
    canvas.style.width = `${wide}px`;
    if (canvas.width !== Math.round(wide * ratio)) canvas.width = Math.round(wide * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const paint = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const left = scroll.scrollLeft;
    paint.setTransform(ratio, 0, 0, ratio, -left * ratio, 0);
    paint.clearRect(left, 0, wide, height);
    const fills = { use: colour("--use"), kept: colour("--kept"), pass: colour("--pass"), first: colour("--reject"), later: colour("--reject-later"), skip: colour("--skip") };
    const strokes = { use: colour("--on-use"), kept: colour("--on-kept"), first: colour("--on-reject"), later: colour("--on-later"), skip: colour("--on-skip") };
    paint.font = `600 11px ${style.fontFamily}`;
    paint.fillStyle = colour("--ink");
    for (const group of groups) if (group.x + group.width > left && group.x < left + wide) paint.fillText(clip(group.name, Math.max(4, Math.floor(group.width / 6))), Math.max(group.x, Math.min(left + 2, group.x + group.width - 60)), 12);
    const from = findColumn(left);
    for (let position = from; position < columns.length && columns[position].x < left + wide; position += 1) {
      const { column, x } = columns[position];
      paint.globalAlpha = options.filter && !options.filter(column) ? 0.2 : 1;
      for (let line = 0; line < matrix.plugins.length; line += 1) {
        const kind = cellKind(matrix, line, column, firsts[column]);
        const y = top + line * (size + gap);
        paint.fillStyle = fills[kind];
        paint.fillRect(x, y, size, size);
        if (kind !== "pass" && kind !== "skip") {
          paint.strokeStyle = strokes[kind];
          paint.translate(x, y);
          paint.stroke(glyph(kind));
          paint.translate(-x, -y);
        }
      }
      const tall = scale(matrix.scores[column]);
      paint.fillStyle = colour("--score");
      if (tall) paint.fillRect(x + 1, height - 4 - tall, size - 2, tall);
      const mark = options.marks.get(matrix.clusters[column]);
      if (mark) {
        paint.strokeStyle = colour(`--${mark}`);
        paint.strokeRect(x - 1, top - 1, size + 2, matrix.plugins.length * (size + gap) + 1);
      }
    }
    paint.globalAlpha = 1;
    if (document.activeElement === canvas) {
      paint.strokeStyle = colour("--focus");
      paint.lineWidth = 2;
      paint.strokeRect(columns[active[1]].x - 1, top + active[0] * (size + gap) - 1, size + 2, size + 2);
      paint.lineWidth = 1;
    }
  }

  const shapes = {};
  function glyph(kind) {
    return (shapes[kind] ??= new Path2D(GLYPHS[kind](size)));
  }

  /** The first column that ends after x. */
  function findColumn(x) {
    let low = 0;
    let high = columns.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (columns[middle].x + size < x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(draw);
  }

  function find(event) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left + scroll.scrollLeft;
    const line = Math.floor((event.clientY - box.top - top) / (size + gap));
    const position = findColumn(x);
    const isInside = line >= 0 && line < matrix.plugins.length && position < columns.length && columns[position].x <= x;
    return isInside ? [line, position] : null;
  }

  function placeOf(line, position) {
    const box = canvas.getBoundingClientRect();
    return new DOMRect(box.left + columns[position].x - scroll.scrollLeft, box.top + top + line * (size + gap), size, size);
  }

  function show(line, position) {
    options.point(line, columns[position].column, placeOf(line, position));
  }

  canvas.addEventListener("pointermove", (event) => {
    const at = find(event);
    if (at) show(at[0], at[1]);
    else options.leave();
  });
  canvas.addEventListener("pointerleave", () => options.leave());
  canvas.addEventListener("click", (event) => {
    const at = find(event);
    if (!at) return;
    active = at;
    options.pin(columns[at[1]].column);
    redraw();
  });
  canvas.addEventListener("focus", redraw);
  canvas.addEventListener("blur", () => (options.leave(), redraw()));
  canvas.addEventListener("keydown", (event) => {
    const [line, position] = active;
    const next = step(event.key, line, position, matrix.plugins.length, columns.length, event.ctrlKey);
    if (next) {
      active = next;
      const { x, column } = columns[next[1]];
      if (x < scroll.scrollLeft + size) scroll.scrollLeft = Math.max(0, x - size);
      if (x > scroll.scrollLeft + scroll.clientWidth - 2 * size) scroll.scrollLeft = x - scroll.clientWidth + 2 * size;
      spoken.textContent = `${describeCell(matrix, next[0], column)}; ${describeStanding(matrix, column)}`;
      say(spoken.textContent);
      show(next[0], next[1]);
      redraw();
    } else if (event.key === "Enter" || event.key === " ") options.pin(columns[position].column);
    else if (event.key === "c" && !event.ctrlKey && !event.metaKey) options.explain(columns[position].column);
    else return;
    event.preventDefault();
  });
  scroll.addEventListener("scroll", redraw, { passive: true });
  new ResizeObserver(redraw).observe(scroll);
  scroll.restoreFocus = () => canvas.focus({ preventScroll: true });
  redraw();
  return scroll;
}
