// The API page: what /openapi.json describes, as text. Everything is written as text nodes, never as markup.

const METHODS = ["get", "post", "put", "patch", "delete"];

/**
 * @param {string} name
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** @param {string} text Paragraphs, with `code` between backquotes. */
function paragraphs(text) {
  return text.split(/\n\s*\n/).filter(Boolean).map((paragraph) => element("p", {}, ...inline(paragraph)));
}

/** @param {string} text */
function inline(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

/** @param {any} schema */
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${typeOf(schema.items) || "anything"}`;
  if (schema.type === "object" && schema.additionalProperties) return `map of ${typeOf(schema.additionalProperties) || "anything"}`;
  return schema.type || "";
}

/** @param {string[]} heads @param {(Node | string)[][]} rows */
function table(heads, rows) {
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))),
  );
}

/** @param {string} summary @param {any} value */
function folded(summary, value) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return element("details", {}, element("summary", {}, summary), element("pre", { tabindex: "0" }, text));
}

/** @param {any} content */
function examples(content) {
  return Object.entries(content || {}).flatMap(([mediaType, media]) => {
    const named = Object.entries(media.examples || {}).map(([name, one]) => folded(`${mediaType}: ${name}`, one.value));
    return media.example === undefined ? named : [folded(mediaType, media.example), ...named];
  });
}

/** @param {any} operation */
function parameters(operation) {
  const listed = operation.parameters || [];
  if (!listed.length) return [];
  const rows = listed.map((/** @type {any} */ parameter) => [
    element("code", {}, parameter.name),
    `${parameter.in}${parameter.required ? ", required" : ""}`,
    typeOf(parameter.schema),
    element("span", {}, ...inline(parameter.description || "")),
  ]);
  return [element("h4", {}, "Parameters"), table(["Name", "In", "Type", "Meaning"], rows)];
}

/** @param {string} path @param {string} method @param {any} operation */
function section(path, method, operation) {
  const id = `${method}-${path}`;
  const responses = Object.entries(operation.responses);
  return element(
    "section",
    { "aria-labelledby": id },
    element("h3", { id }, element("span", { class: "method" }, method.toUpperCase()), element("code", {}, path)),
    ...paragraphs(`${operation.summary}.\n\n${operation.description || ""}`),
    ...parameters(operation),
    ...(operation.requestBody ? [element("h4", {}, "Body"), ...examples(operation.requestBody.content)] : []),
    element("h4", {}, "Responses"),
    table(["Status", "Meaning"], responses.map(([status, response]) => [element("code", {}, status), response.description])),
    ...responses.flatMap(([, response]) => examples(response.content)),
  );
}

/** @param {string} name @param {any} schema */
function structure(name, schema) {
  const rows = Object.entries(schema.properties || {}).map(([field, of]) => [
    element("code", {}, field),
    typeOf(of),
    element("span", {}, ...inline(of.description || "")),
  ]);
  return element(
    "section",
    {},
    element("h3", { id: `schema-${name}` }, element("code", {}, name)),
    ...paragraphs(schema.description || ""),
    ...(rows.length ? [table(["Field", "Type", "Meaning"], rows)] : []),
  );
}

/** @param {any} description */
function show(description) {
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => ({ path, method, operation: methods[method] })),
  );
  const tags = [...new Set(operations.map(({ operation }) => (operation.tags || ["other"])[0]))];
  const links = operations.map(({ path, method, operation }) =>
    element("li", {}, element("a", { href: `#${method}-${path}` }, `${method.toUpperCase()} ${path}`), ` ${operation.summary}`),
  );
  byId("about").replaceChildren(`${description.info.title} ${description.info.version}. ${description.info.description}`);
  byId("endpoints").replaceChildren(element("ul", {}, ...links));
  byId("operations").replaceChildren(
    ...tags.flatMap((tag) => [
      element("h2", {}, tag),
      ...operations
        .filter(({ operation }) => (operation.tags || ["other"])[0] === tag)
        .map(({ path, method, operation }) => section(path, method, operation)),
    ]),
    element("h2", {}, "Structures"),
    ...Object.entries(description.components.schemas).map(([name, schema]) => structure(name, schema)),
  );
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  const there = document.getElementById(id);
  if (!there) throw new Error(`there is no element ${id}`);
  return there;
}

const main = byId("operations");
try {
  const response = await fetch("/openapi.json", { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  show(await response.json());
} catch (error) {
  main.replaceChildren(element("p", { role: "alert" }, `/openapi.json cannot be read: ${error}`));
}
main.removeAttribute("aria-busy");
