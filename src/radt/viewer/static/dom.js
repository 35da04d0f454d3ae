// Small helpers for elements. Text only ever becomes a text node: names from runs are not markup.

export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function say(id, text) {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

// Fill a <select> with [value, label, group] and keep the choice where it still exists.
export function fill(select, options, chosen) {
  const groups = new Map();
  select.replaceChildren();
  for (const [value, label, group] of options) {
    const option = element("option", { value, textContent: label });
    if (!group) {
      select.append(option);
      continue;
    }
    if (!groups.has(group)) {
      groups.set(group, element("optgroup", { label: group }));
      select.append(groups.get(group));
    }
    groups.get(group).append(option);
  }
  if (chosen !== undefined && chosen !== null) select.value = String(chosen);
}

export const number = (value, digits = 2) =>
  Number.isInteger(value) ? String(value) : value.toFixed(digits);

export const percent = (share) => `${Math.round(100 * share)}%`;
