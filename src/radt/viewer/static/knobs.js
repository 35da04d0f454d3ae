// What can be changed about a live agent: sliders, and a switch that takes its memory away.

import { byId, element, number } from "./dom.js";

const KNOBS = [
  ["temperature", "temperature", 0.05, "Randomness of actions once the task is solved"],
  ["explore_temperature", "temperature, exploring", 0.05, "Randomness of actions until then"],
  ["alpha", "alpha", 0.1, "Weight of a chunk's return against its similarity"],
  ["top_l", "top l", 1, "How many of the most similar chunks are scored"],
  ["retrieve_every", "retrieve every", 1, "Steps between two searches; 0: once, at the start of a trial"],
];
const NARROW = { alpha: 4, top_l: 100, temperature: 3, explore_temperature: 3 }; // most on a slider
const WAIT = 90; // milliseconds after the last move of a slider

export class Knobs {
  constructor(onChange) {
    this.list = byId("knob-list");
    this.onChange = onChange;
    this.timer = null;
  }

  begin(settings, bounds) {
    this.settings = { ...settings };
    this.inputs = new Map();
    this.list.replaceChildren(
      this.memorySwitch(),
      ...KNOBS.filter(([name]) => settings[name] !== null).map((knob) => this.slider(knob, bounds)),
    );
  }

  memorySwitch() {
    const input = element("input", { type: "checkbox", id: "memory", checked: this.settings.memory });
    input.setAttribute("role", "switch");
    input.addEventListener("change", () => this.set("memory", input.checked, 0));
    const label = element("span", { textContent: "memory" });
    this.inputs.set("memory", { input });
    return element("label", { className: "switch" }, label, input);
  }

  slider([name, words, step, title], bounds) {
    const [least, most] = bounds[name];
    const input = element("input", {
      type: "range", id: `knob-${name}`, title, step, min: least,
      max: Math.min(most, NARROW[name] ?? most), value: this.settings[name],
    });
    const output = element("output", { textContent: shown(name, this.settings[name]) });
    output.htmlFor = input.id;
    input.addEventListener("input", () => {
      output.textContent = shown(name, Number(input.value));
      this.set(name, Number(input.value), WAIT);
    });
    this.inputs.set(name, { input, output });
    const label = element("label", { htmlFor: input.id, textContent: words, title });
    return element("div", { className: "knob" }, label, output, input);
  }

  set(name, value, wait) {
    this.settings[name] = value;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.onChange({ ...this.settings }), wait);
  }

  toggleMemory() {
    const { input } = this.inputs?.get("memory") ?? {};
    if (input) input.click();
  }
}

function shown(name, value) {
  if (name === "retrieve_every") return value === 0 ? "trial" : value === 1 ? "step" : `${value} steps`;
  return number(value, 2);
}
