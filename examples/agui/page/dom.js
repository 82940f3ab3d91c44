// Creates elements. Text of agents and users only ever becomes a text node, never HTML.

/** Return a new element. Strings among `children` become text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

let count = 0;

/** Return an ID that no other element has. */
export const newId = (name) => `${name}-${++count}`;

/** Return a JSON value as text for people. */
export const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Return elements for the members of an object, such as the arguments of a call. */
export function members(object) {
  const list = element("dl", { className: "arguments" });
  for (const [name, value] of Object.entries(object ?? {})) {
    list.append(element("dt", {}, name), element("dd", {}, element("pre", { dir: "auto" }, shown(value))));
  }
  return list;
}
