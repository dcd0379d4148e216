// Small tools for the document.

const SVG = "http://www.w3.org/2000/svg";

export const by = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function shape(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Keep one child for each item, in order; children that stay keep the focus.
export function keyed(parent, items, keyOf, create, update) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let before = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = old.get(key);
    if (child === undefined) {
      child = create(item);
      child.dataset.key = key;
    }
    old.delete(key);
    update(child, item);
    if (child === before) before = before.nextElementSibling;
    else parent.insertBefore(child, before);
  }
  for (const child of old.values()) child.remove();
}

export function rows(list, pairs) {
  keyed(
    list,
    pairs.filter(([, value]) => value !== null && value !== undefined),
    ([name]) => name,
    ([name]) => element("div", { class: "pair" }, element("dt", { textContent: name }), element("dd")),
    (child, [, value]) => {
      const shown = child.lastElementChild;
      if (value instanceof Node) shown.replaceChildren(value);
      else setText(shown, String(value));
    },
  );
}
