// Requests to the API, with the session's cookie.

const ROOT = new URL("/", location.href);
const PATIENCE = 6;

/** A refusal of the API, as problem+json describes it. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.next = body.next || "";
  }
}

/** @param {string} path below the root, without a leading slash */
export function address(path, query = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) if (value !== null && value !== undefined) url.searchParams.set(name, value);
  return url;
}

async function request(path, query, options, tries = PATIENCE) {
  const answer = await fetch(address(path, query), { credentials: "same-origin", ...options });
  if (answer.ok) return answer;
  if ((answer.status === 429 || answer.status === 503) && tries > 0) {
    const seconds = Number(answer.headers.get("retry-after")) || 1;
    await new Promise((wake, stop) => {
      const timer = setTimeout(wake, seconds * 1000);
      options.signal?.addEventListener("abort", () => (clearTimeout(timer), stop(options.signal.reason)));
    });
    return request(path, query, options, tries - 1);
  }
  if (answer.status === 401) location.assign(`/ui/signin?${new URLSearchParams({ next: location.pathname + location.search })}`);
  throw new Problem(answer.status, await answer.json().catch(() => ({})));
}

export async function get(path, query = {}, signal) {
  return (await request(path, query, { signal, headers: { accept: "application/json" } })).json();
}

export async function post(path, body, signal, more = {}) {
  const headers = { accept: "application/json", "content-type": "application/json", ...more };
  return (await request(path, {}, { method: "POST", signal, headers, body: JSON.stringify(body) })).json();
}

/** All pages of a list. */
export async function getAll(path, query = {}, signal) {
  const items = [];
  let redacted = 0;
  for (let cursor = null; ; ) {
    const page = await get(path, { limit: 500, ...query, cursor }, signal);
    items.push(...page.items);
    redacted = page.redacted || 0;
    cursor = page.next;
    if (!cursor) return { items, redacted };
  }
}

/** `v1/placements/-/web`, `v1/placements/shop/web/why`. */
export function placementPath(key, rest = "") {
  const [namespace, name] = key.includes("/") ? key.split("/") : ["-", key];
  return `v1/placements/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}${rest}`;
}

/**
 * Recorded decisions as they come, each once, also over restarts of the API.
 *
 * @param {{placement?: string, since?: number | null}} query `since`: the last that is known
 * @param {(decision: any) => void} receive
 * @param {(state: string) => void} report
 * @returns {() => void} ends it
 */
export function follow(query, receive, report) {
  let last = query.since ?? null;
  let source = null;
  let timer = 0;
  let pause = 1000;
  let ended = false;

  function open() {
    source = new EventSource(address("v1/decisions", { follow: true, ...query, since: last }), { withCredentials: true });
    source.onopen = () => ((pause = 1000), report("live"));
    // Where to resume if nothing is decided before the stream ends.
    source.addEventListener("start", (event) => (last ??= JSON.parse(event.data).seq));
    source.addEventListener("decision", (event) => {
      const decision = JSON.parse(event.data);
      if (last !== null && decision.seq <= last) return;
      last = decision.seq;
      receive(decision);
    });
    // The browser gives up after an answer that is no stream, such as a 503, so always reconnect by ourselves.
    source.onerror = () => {
      source.close();
      if (ended) return;
      report("reconnecting");
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, 15000);
    };
  }

  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source.close();
  };
}
