// Placement groups: the list of them, and the page of one with its members, and where they were tried.

import { h, panel } from "./dom.js";
import { clusterLink, note, placementLink, poll, showClock, time } from "./parts.js";
import { get } from "./rest.js";

const KINDS = { Scheduled: "is-good", Bound: "is-good", Missing: "is-bad", TimedOut: "is-bad", Degraded: "is-bad", Unschedulable: "is-bad", BindFailed: "is-bad", SchedulerError: "is-bad", InputError: "is-bad" };

export function groupLink({ namespace, name }) {
  return `/ui/groups/${encodeURIComponent(namespace || "-")}/${encodeURIComponent(name)}`;
}

export function groupName({ namespace, name }) {
  return namespace ? `${namespace}/${name}` : name;
}

/** @param {HTMLElement} area */
export function makeGroups(area) {
  let shown = "";

  async function load() {
    const { items } = await get("v1/groups").catch(forgive);
    const text = JSON.stringify(items);
    if (text === shown) return;
    shown = text;
    area.replaceChildren(items.length ? panel("Placement groups", {}, drawList(items)) : "");
  }

  return { load };
}

function drawList(items) {
  return h("table", {}, drawHead(["group", "state", "members", "bound", "needed", "domain"]),
    h("tbody", {}, items.map((group) => h("tr", { "data-group": groupName(group) },
      h("th", { scope: "row" }, h("a", { href: groupLink(group) }, groupName(group))), h("td", {}, badge(group.state)),
      [group.members, group.placed, group.needed].map((number) => h("td", { class: "number" }, String(number))), h("td", {}, group.domain || "–")))));
}

export async function showGroup(main, namespace, name) {
  const path = `v1/groups/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/why`;
  const areas = Object.fromEntries(["facts", "members", "trials"].map((area) => [area, h("div", { id: area })]));
  let text = "";
  await load();
  main.replaceChildren(h("div", { class: "stack" }, areas.facts, areas.members, areas.trials));
  poll(() => load().then(() => showClock("")));

  async function load() {
    const why = await get(path);
    const now = JSON.stringify(why);
    if (now === text) return;
    text = now;
    areas.facts.replaceChildren(drawFacts(why));
    areas.members.replaceChildren(drawMembers(why));
    areas.trials.replaceChildren(drawTrials(why.members) || "");
  }
}

function drawFacts(why) {
  const group = why.group;
  const pair = (term, value) => value && [h("dt", {}, term), h("dd", {}, value)];
  return h("section", { class: "panel", "aria-labelledby": "headline" },
    h("div", { class: "head" }, h("h1", { id: "headline" }, groupName(group)), badge(group.state), group.reason && h("span", { class: "soft" }, group.reason)),
    group.message && h("p", { id: "message" }, group.message),
    h("dl", { class: "pair" },
      pair("members", `${group.members}, ${group.placed} bound, ${group.needed} needed${group.hidden ? `, ${group.hidden} that you may not read` : ""}`),
      pair("best place", why.fitting === null ? "" : `${why.fitting} fit`),
      pair("placed", group.topologyKey ? `in one domain of ${group.topologyKey}${group.domain && `: ${group.domain}`}` : group.sameClusters ? "on the same clusters" : ""),
      pair("waits since", group.since && [time(group.since), " UTC"]),
      pair("until", group.deadline && [time(group.deadline), " UTC"])),
    why.note && note(why.note), h("p", { class: "facts" }, h("code", {}, `fleet groups ${groupName(group)}`)));
}

function drawMembers({ members, more }) {
  return panel("Members", {}, h("table", { id: "member-list" }, drawHead(["placement", "state", "clusters", "remark"]),
    h("tbody", {}, members.map((member) => h("tr", { "data-member": member.key },
      h("th", { scope: "row" }, h("a", { href: placementLink(member.key) }, member.key)), h("td", {}, badge(member.state)),
      h("td", {}, drawClusters(member)), h("td", {}, describeMember(member)))))),
    more > 0 && h("p", { class: "soft" }, `and ${more} more`));
}

function drawClusters({ clusters, planned, redacted }) {
  const links = [...clusters.map((name) => [name, ""]), ...planned.map((name) => [name, " (planned)"])].map(([name, remark], index) => [index > 0 && ", ", h("a", { href: clusterLink(name) }, name), remark]);
  return [links, redacted > 0 && ` ${redacted} that you may not read`, !links.length && !redacted && "–"];
}

function describeMember({ gate, waiting, preempting, answers, error, trials, state }) {
  if (gate) return `held by ${gate.by}: ${gate.message}`;
  if (waiting?.waiting.length) return `waits for ${waiting.waiting.map((target) => `${target.rule || target.plugin} on ${target.cluster}`).join(", ")}`;
  if (preempting) return describeRooms(preempting);
  if (answers.length) return answers.map((answer) => `${answer.plugin} refuses ${answer.target || "it"}${answer.message && `: ${answer.message}`}`).join("; ");
  if (error || state !== "WaitingForGroup") return error;
  return trials.some((trial) => trial.fits) ? "fits, and waits for the others" : "not looked at: the others cannot reach the minimum";
}

function describeRooms({ clusters, redacted }) {
  const rooms = clusters.map(({ cluster, phase, victims, hidden }) => {
    const names = [...victims, ...(hidden > 0 ? [`${hidden} that you may not read`] : [])];
    return names.length > 0 && phase !== "Drained" ? `room is made on ${cluster}: ${names.join(", ")} to leave` : `room is kept on ${cluster}`;
  });
  return [...rooms, ...(redacted > 0 ? [`room is made on ${redacted} that you may not read`] : [])].join("; ");
}

function drawTrials(members) {
  const rows = members.flatMap((member) => member.trials.flatMap((trial) => trial.rejections.map((rejection) => h("tr", { "data-member": member.key, "data-domain": trial.domain },
    h("th", { scope: "row" }, h("a", { href: placementLink(member.key) }, member.key)), h("td", {}, trial.domain || "–"), h("td", {}, rejection.plugin), h("td", {}, rejection.reason),
    h("td", { class: "number" }, rejection.count ? String(rejection.count) : "–"), h("td", {}, [rejection.clusters.join(", "), rejection.message].filter(Boolean).join(": "))))));
  return rows.length > 0 && panel("Where members do not fit", {}, h("table", { id: "trial-list" }, drawHead(["placement", "domain", "plugin", "reason", "clusters", "which"]), h("tbody", {}, rows)));
}

function drawHead(words) {
  return h("thead", {}, h("tr", {}, words.map((word) => h("th", { scope: "col" }, word))));
}

function badge(state) {
  const kind = KINDS[state] || "is-warn";
  return h("span", { class: `state ${kind}`, "data-state": state }, { "is-good": "✓ ", "is-bad": "✗ " }[kind] || "", state);
}

/** An API of an earlier release has no list of groups, and some callers may not ask. */
function forgive(error) {
  if (error.status !== 403 && error.status !== 404) throw error;
  return { items: [] };
}
