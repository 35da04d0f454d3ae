// How likely each action is in the state that is shown, and which one was taken.

import { byId, element, percent, say } from "./dom.js";

const SIGNS = {
  up: "↑", north: "↑", down: "↓", south: "↓", left: "←", west: "←", right: "→", east: "→",
  wait: "•", none: "•",
};

export class Decision {
  constructor() {
    this.list = byId("probabilities");
    this.rows = [];
  }

  begin(actions) {
    this.actions = actions;
    this.rows = actions.map((name) => {
      const bar = element("span", { className: "bar" });
      const share = element("span", { className: "share" });
      const label = element("span", { className: "name", textContent: `${SIGNS[name] ?? ""} ${name}` });
      const row = element("li", {}, label, element("span", { className: "track" }, bar), share);
      return { row, bar, share };
    });
    this.list.replaceChildren(...this.rows.map(({ row }) => row));
  }

  show(moment) {
    const { trial, step, probabilities } = moment;
    const taken = trial.actions[step];
    this.rows.forEach(({ row, bar, share }, action) => {
      const probability = probabilities?.[action] ?? 0;
      bar.style.width = `${100 * probability}%`;
      share.textContent = percent(probability);
      row.classList.toggle("taken", action === taken);
    });
    say("decision-says", this.words(moment, taken));
  }

  words({ probabilities, trial, step }, taken) {
    if (Array.isArray(taken)) return `action ${taken.map((part) => part.toFixed(2)).join(", ")}`;
    const name = this.actions[taken] ?? String(taken);
    const earns = trial.rewards[step] > 0 ? ", which pays" : "";
    return probabilities ? `takes “${name}”${earns}` : `takes “${name}”`;
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
