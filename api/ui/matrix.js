// The verdicts of rules on clusters, and the order in which clusters are shown.

export const PASSED = 0;
export const NOT_RUN = 255;

/**
 * @typedef {object} Matrix
 * @property {string[]} plugins
 * @property {string[]} clusters
 * @property {Uint8Array} verdicts plugins × clusters: 0 passed, 255 not run, else 1 + an index of `reasons`
 * @property {{plugin: string, text: string}[]} reasons
 * @property {(number | null)[]} scores
 * @property {Set<number>} bound
 * @property {Record<string, (string | null)[]>} labels
 * @property {number} redacted clusters that are counted and not named
 */

/** @returns {Matrix} */
export function readMatrix(body) {
  const verdicts = Uint8Array.from(atob(body.verdicts), (letter) => letter.charCodeAt(0));
  return { ...body, verdicts, bound: new Set(body.bound), redacted: body.redacted || 0 };
}

/**
 * The matrix of a simulation, with the labels of the fleet and what the edits make of them.
 *
 * @param {any} body
 * @param {Matrix} base
 * @param {any[]} edits
 * @returns {Matrix}
 */
export function readSimulated(body, base, edits) {
  const places = new Map(base.clusters.map((name, index) => [name, index]));
  const labels = Object.fromEntries(Object.entries(base.labels).map(([key, values]) => [key, body.clusters.map((name) => values[places.get(name) ?? -1] ?? null)]));
  for (const { op, cluster, key, value } of edits) if (op === "labelCluster" && labels[key]) labels[key][body.clusters.indexOf(cluster)] = value;
  return readMatrix({ ...body, labels });
}

/** @param {Matrix} matrix */
export function verdictAt(matrix, line, column) {
  return matrix.verdicts[line * matrix.clusters.length + column];
}

/** The first rule that rejects, as its position; -1 for none. */
export function firstRejection(matrix, column) {
  return matrix.plugins.findIndex((_, line) => {
    const verdict = verdictAt(matrix, line, column);
    return verdict !== PASSED && verdict !== NOT_RUN;
  });
}

/** `use`, `fits` or `out`. */
export function standing(matrix, column) {
  if (matrix.bound.has(column)) return "use";
  return firstRejection(matrix, column) < 0 ? "fits" : "out";
}

/** How one cell is drawn: use, pass, first, later, kept (rejected now, but in use) or skip. */
export function cellKind(matrix, line, column, first) {
  const verdict = verdictAt(matrix, line, column);
  const inUse = matrix.bound.has(column);
  if (verdict === NOT_RUN) return "skip";
  if (verdict === PASSED) return inUse ? "use" : "pass";
  if (inUse) return "kept";
  return line === first ? "first" : "later";
}

/** The cell in words, as the tooltip and screen readers have it. */
export function describeCell(matrix, line, column) {
  const verdict = verdictAt(matrix, line, column);
  const text = verdict === PASSED ? "passes" : verdict === NOT_RUN ? "not run" : matrix.reasons[verdict - 1].text;
  return `${matrix.clusters[column]}, ${matrix.plugins[line]}: ${text}`;
}

export function describeStanding(matrix, column) {
  if (matrix.bound.has(column)) return "in use";
  const first = firstRejection(matrix, column);
  return first < 0 ? "fits, not chosen" : `rejected by ${matrix.plugins[first]}`;
}

/** How many clusters each rule excludes first, and what is left. */
export function countFunnel(matrix) {
  const rejected = matrix.plugins.map(() => 0);
  let fits = 0;
  matrix.clusters.forEach((_, column) => {
    if (matrix.bound.has(column)) return;
    const first = firstRejection(matrix, column);
    if (first < 0) fits += 1;
    else rejected[first] += 1;
  });
  return { total: matrix.clusters.length, rejected, fits, inUse: matrix.bound.size };
}

const ORDER = { use: 0, fits: 1, out: 2 };

/**
 * Columns by the value of a label, and within it: in use, fitting by score, others; then by name.
 *
 * @param {Matrix} matrix
 * @param {string} key the label; empty for one group
 * @returns {{name: string, columns: number[]}[]}
 */
export function groupColumns(matrix, key) {
  const values = matrix.labels[key];
  const groups = new Map();
  const rank = matrix.clusters.map((_, column) => ORDER[standing(matrix, column)]);
  matrix.clusters.forEach((_, column) => {
    const name = values ? (values[column] ?? "") : "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(column);
  });
  const score = (column) => matrix.scores[column] ?? -Infinity;
  for (const columns of groups.values()) {
    columns.sort((a, b) => rank[a] - rank[b] || (score(b) > score(a) ? 1 : score(b) < score(a) ? -1 : 0) || (matrix.clusters[a] < matrix.clusters[b] ? -1 : 1));
  }
  return [...groups]
    .sort(([a], [b]) => (a === "" ? 1 : b === "" ? -1 : a < b ? -1 : 1))
    .map(([name, columns]) => ({ name: name || (values ? `(no ${key})` : ""), columns }));
}
