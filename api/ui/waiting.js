// Placements that wait for approval, and the answers of those who may give one.

import { h, panel, say } from "./dom.js";
import { clusterLink, placementLink, time } from "./parts.js";
import { get, post } from "./rest.js";

/**
 * @param {HTMLElement} area
 * @param {string} key the placement; empty for all
 */
export function makeWaiting(area, key = "") {
  let shown = "";

  async function load() {
    const { items } = await get("v1/waiting").catch(forgive);
    const own = items.filter((item) => item.waiting.length && (!key || item.key === key));
    // What only tells the time does not take away a reason that is being written.
    const text = JSON.stringify(own, (name, value) => (name === "remainingSeconds" ? undefined : value));
    if (text === shown) return;
    shown = text;
    area.replaceChildren(own.length ? panel("Waiting for approval", {}, h("ul", { class: "list" }, own.flatMap(drawItem))) : "");
  }

  function drawItem(item) {
    return item.waiting.map((target, index) => {
      const id = `reason-${item.uid}-${index}`;
      const reason = h("input", { type: "text", id, maxlength: 500, autocomplete: "off" });
      const problem = h("p", { class: "note is-bad", role: "alert", hidden: true });
      // Sent again, the same click is answered the same and counts once.
      const click = String(crypto.getRandomValues(new Uint32Array(4)));
      const send = async (verb, body, word) => {
        const path = `v1/waiting/${encodeURIComponent(item.uid)}/${verb}`;
        try {
          await post(path, { plugin: target.plugin, target: target.cluster, rule: target.rule, ...body }, undefined, { "idempotency-key": `${click}-${verb}` });
          say(`${item.key} on ${target.cluster}: ${word}`);
          shown = "";
          await load();
        } catch (error) {
          problem.textContent = [error.message, error.next].filter(Boolean).join(" – ");
          problem.hidden = false;
        }
      };
      const deny = () => {
        if (reason.value.trim()) return send("reject", { message: reason.value.trim() }, "denied");
        problem.textContent = "say why: the owner of the placement reads it";
        problem.hidden = false;
        return reason.focus();
      };
      return h("li", { "data-key": item.key, "data-cluster": target.cluster, "data-rule": target.rule },
        !key && [h("a", { href: placementLink(item.key) }, item.key), " on "], h("a", { href: clusterLink(target.cluster) }, target.cluster), `: ${target.rule || target.plugin}`,
        h("div", { class: "soft" }, describe(target), " since ", time(target.since), " UTC", target.deadline && [", until ", time(target.deadline), " UTC"]),
        target.mayAnswer === false ? h("p", { class: "soft" }, "You are not among those who may answer.") : [
          h("label", { for: id }, "Reason"), " ", reason,
          h("div", { class: "actions" },
            h("button", { type: "button", onclick: () => send("allow", { reason: reason.value.trim() }, "approved") }, "approve"),
            h("button", { type: "button", onclick: deny }, "deny")), problem]);
    });
  }

  return { load };
}

/** An API of an earlier release has no approvals, and some callers may not ask. */
function forgive(error) {
  if (error.status !== 403 && error.status !== 404) throw error;
  return { items: [] };
}

function describe({ users, groups, count, approvedBy }) {
  const from = [...users, ...groups].join(", ");
  return [`${approvedBy.length} of ${count} approved`, approvedBy.length && `by ${approvedBy.join(", ")}`, from && `asks ${from}`].filter(Boolean).join("; ");
}
