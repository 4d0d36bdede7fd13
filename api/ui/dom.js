// Elements from values. Text is always a text node, so a name can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} element
 * @param {Record<string, any>} attributes functions become listeners; null and false are left out
 * @param {any[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** @returns {HTMLElement & Record<string, any>} */
export function h(tag, attributes = {}, ...children) {
  return /** @type {any} */ (fill(document.createElement(tag), attributes, children));
}

/** @returns {SVGElement & Record<string, any>} */
export function svg(tag, attributes = {}, ...children) {
  return /** @type {any} */ (fill(document.createElementNS(SVG, tag), attributes, children));
}

/** @param {string} id */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {ParentNode} area @param {string} selector */
export function focusOn(area, selector) {
  /** @type {HTMLElement | null} */ (area.querySelector(selector))?.focus();
}

/** What a screen reader should hear. */
export function say(text) {
  byId("say").textContent = text;
}

/** A section with a heading. */
export function panel(title, attributes, ...children) {
  const id = `h-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { class: "panel", "aria-labelledby": id, ...attributes }, h("h2", { id }, title), ...children);
}

/** Put text on the clipboard, and say so on the button. */
export async function copy(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
  } catch {
    const area = h("textarea", { class: "unseen", readonly: true }, text);
    document.body.append(area);
    area.select();
    button.textContent = document.execCommand("copy") ? "copied" : "copy failed";
    area.remove();
  }
  say(button.textContent);
  setTimeout(() => (button.textContent = label), 1500);
}

/** `1 cluster`, `2 clusters`. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
