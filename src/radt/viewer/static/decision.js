// How likely each action is in the state that is shown, and which one was taken; or how far each
// dimension of a continuous action goes.

import { byId, element, number, percent, say } from "./dom.js";

const SIGNS = {
  up: "↑", north: "↑", down: "↓", south: "↓", left: "←", west: "←", right: "→", east: "→",
  wait: "•", none: "•",
};

export class Decision {
  constructor() {
    this.list = byId("probabilities");
    this.rows = [];
  }

  begin({ actions, continuous }) {
    this.actions = actions;
    this.continuous = continuous;
    this.list.classList.toggle("signed", continuous);
    this.rows = actions.map((name) => {
      const bar = element("span", { className: "bar" });
      const share = element("span", { className: "share" });
      const label = element("span", { className: "name", textContent: `${SIGNS[name] ?? ""} ${name}` });
      const row = element("li", {}, label, element("span", { className: "track" }, bar), share);
      return { row, bar, share };
    });
    this.list.replaceChildren(...this.rows.map(({ row }) => row));
  }

  show({ trial, step, probabilities }) {
    const taken = trial.actions[step];
    this.rows.forEach((row, action) => {
      if (this.continuous) this.showPart(row, taken[action]);
      else this.showChoice(row, probabilities?.[action] ?? 0, action === taken);
    });
    say("decision-says", this.words(trial.rewards[step], taken));
  }

  showChoice({ row, bar, share }, probability, taken) {
    bar.style.width = `${100 * probability}%`;
    share.textContent = percent(probability);
    row.classList.toggle("taken", taken);
  }

  // One dimension of an action, from -1 to 1: its bar grows from the middle.
  showPart({ row, bar, share }, value) {
    const part = Math.min(Math.max(value, -1), 1);
    bar.style.left = `${50 + 50 * Math.min(part, 0)}%`;
    bar.style.width = `${50 * Math.abs(part)}%`;
    share.textContent = value.toFixed(2).replace("-", "−");
    row.classList.add("taken");
  }

  words(reward, taken) {
    if (this.continuous) return `earns ${number(reward)}`;
    const earns = reward > 0 ? ", which pays" : "";
    return `takes “${this.actions[taken] ?? taken}”${earns}`;
  }

  clear() {
    for (const { row, bar, share } of this.rows) {
      bar.style.width = "0";
      share.textContent = "";
      row.classList.remove("taken");
    }
    say("decision-says", "");
  }
}
