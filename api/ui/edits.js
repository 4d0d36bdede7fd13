// Edits that can be tried: their identity, their words, and the patch that would make them.

/** Two edits with the same identity replace each other. */
export function identify(edit) {
  const { value: _value, maxSkew: _skew, whenUnsatisfiable: _when, patch: _patch, ...rest } = edit;
  if (edit.op === "tolerate" || edit.op === "removeTaint" || edit.op === "addTaint") return JSON.stringify(edit);
  return JSON.stringify(rest);
}

export function withEdit(edits, edit) {
  return [...edits.filter((other) => identify(other) !== identify(edit)), edit];
}

export function withoutEdit(edits, edit) {
  return edits.filter((other) => identify(other) !== identify(edit));
}

export function isOfCluster(edit) {
  return "cluster" in edit || edit.op === "addCluster";
}

export function taintText({ key, value, effect }) {
  return `${key || "every taint"}${value ? `=${value}` : ""}${effect ? `:${effect}` : ""}`;
}

export function describeEdit(edit) {
  switch (edit.op) {
    case "setCount": return `count ${edit.value}`;
    case "tolerate": return `tolerate ${taintText(edit)}`;
    case "relaxSpread": return [edit.maxSkew && `max skew of ${edit.key} ${edit.maxSkew}`, edit.whenUnsatisfiable && `spread over ${edit.key} only preferred`].filter(Boolean).join(", ");
    case "relaxAffinity": return `affinity term ${edit.term + 1} without ${edit.expression}`;
    case "relaxPlacementAffinity": return `without term ${edit.term + 1} about other placements`;
    case "labelCluster": return edit.value === null ? `${edit.cluster}: without label ${edit.key}` : `${edit.cluster}: ${edit.key}=${edit.value}`;
    case "addTaint": return `${edit.cluster}: taint ${taintText(edit)}`;
    case "removeTaint": return `${edit.cluster}: without taint ${taintText(edit)}`;
    case "setReady": return edit.value ? `${edit.cluster}: its agent is back` : `${edit.cluster}: silent`;
    case "removeCluster": return `${edit.cluster}: leaves the fleet`;
    case "setProperty": return `${edit.cluster}: ${edit.property} ${edit.value}`;
    case "patch": return `policy ${JSON.stringify(edit.patch)}`;
    default: return JSON.stringify(edit);
  }
}

/** For a POSIX shell. */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * The kubectl command that makes an edit; null where it takes more than a patch of what the page knows.
 *
 * @param {any} placement as the API lists it
 */
export function buildCommand(edit, placement) {
  const kind = placement.namespace ? "resourceplacement" : "clusterresourceplacement";
  const where = placement.namespace ? ` --namespace ${quote(placement.namespace)}` : "";
  const change = (policy) => `kubectl patch ${kind} ${quote(placement.name)}${where} --type merge --patch ${quote(JSON.stringify({ spec: { policy } }))}`;
  switch (edit.op) {
    case "setCount": return change({ numberOfClusters: edit.value });
    case "patch": return change(edit.patch);
    case "tolerate": {
      const { op: _op, ...toleration } = edit;
      return change({ tolerations: [...placement.tolerations, { operator: "Equal", ...toleration }] });
    }
    case "relaxSpread": {
      const forbids = (part) => part.topologyKey === edit.key && part.whenUnsatisfiable !== "ScheduleAnyway";
      const isMeant = placement.spread.some(forbids) ? forbids : (part) => part.topologyKey === edit.key;
      const relax = (part) => ({ ...part, maxSkew: edit.maxSkew ?? part.maxSkew, whenUnsatisfiable: edit.whenUnsatisfiable ?? part.whenUnsatisfiable });
      return change({ topologySpreadConstraints: placement.spread.map((part) => (isMeant(part) ? relax(part) : part)) });
    }
    case "labelCluster": return `kubectl label membercluster ${quote(edit.cluster)} ${edit.value === null ? `${quote(edit.key)}-` : `${quote(`${edit.key}=${edit.value}`)} --overwrite`}`;
    default: return null;
  }
}

/** What `fleet why --edit`-style commands read, for edits without a patch. */
export function editsText(edits) {
  return JSON.stringify(edits);
}

export function parseEdits(text) {
  if (!text) return [];
  try {
    const edits = JSON.parse(text);
    return Array.isArray(edits) ? edits.filter((edit) => edit && typeof edit === "object" && typeof edit.op === "string") : [];
  } catch {
    return [];
  }
}
