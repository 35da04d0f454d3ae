// Where we are in what was recorded, and how we move through it: play, step, scrub, jump.

import { byId } from "./dom.js";

const SPEEDS = [1, 2, 5, 10, 20, 40, 80, 160, Infinity]; // steps a second
const LEAD_SECONDS = 0.4; // that are asked for before they are shown

export class Player {
  // onWaiting: somebody wants to go on, but no agent acts yet.
  constructor({ onMove, onError, onWaiting }) {
    Object.assign(this, { onMove, onError, onWaiting });
    this.mode = null;
    this.trial = 0;
    this.step = 0;
    this.playing = false;
    this.due = 0; // steps that time has earned but not shown
    this.last = 0;
    this.asking = null; // what was asked for and did not come yet
    this.bind();
  }

  begin(mode) {
    this.mode = mode;
    this.jump(0, 0);
  }

  get speed() {
    return SPEEDS[Number(byId("speed").value)];
  }

  get now() {
    return this.mode?.history.get(this.trial) ?? null;
  }

  bind() {
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on("play", "click", () => this.play(!this.playing));
    on("back", "click", () => this.move(-1));
    on("forward", "click", () => this.move(1));
    on("previous", "click", () => this.toTrial(this.trial - 1));
    on("next", "click", () => this.toTrial(this.trial + 1));
    on("scrub", "input", () => this.jump(this.trial, Number(byId("scrub").value)));
    on("speed", "input", () => this.saySpeed());
    this.saySpeed();
  }

  saySpeed() {
    const words = this.speed === Infinity ? "full speed" : `${this.speed} steps/s`;
    byId("speed-says").textContent = words;
  }

  faster(by) {
    const input = byId("speed");
    input.value = String(Number(input.value) + by);
    this.saySpeed();
  }

  play(on) {
    if (on && this.mode?.waiting) {
      this.onWaiting();
      return;
    }
    this.playing = on && Boolean(this.mode);
    this.due = 0;
    const button = byId("play");
    button.classList.toggle("playing", this.playing);
    button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    this.onMove();
  }

  jump(trial, step) {
    this.trial = trial;
    const length = this.now?.length ?? 1;
    this.step = Math.min(Math.max(step, 0), Math.max(length - 1, 0));
    this.onMove();
  }

  async toTrial(index) {
    if (!this.mode || index < 0) return;
    this.play(false);
    if (await this.mode.load(index)) this.jump(index, 0);
  }

  // Move by single steps, across trials; forward beyond what is known asks for more.
  async move(by) {
    if (!this.mode || this.mode.waiting) return;
    this.play(false);
    for (let known = -1; by > known && this.ahead(by) > known; ) {
      known = this.ahead(by);
      if (known < by) await this.more(by - known);
    }
    this.go(by);
    this.onMove();
  }

  go(by) {
    for (let count = 0; count < Math.abs(by); count++) {
      if (!(by > 0 ? this.on() : this.back())) return count;
    }
    return Math.abs(by);
  }

  on() {
    const trial = this.now;
    if (!trial) return false;
    if (this.step + 1 < trial.length) this.step += 1;
    else if (trial.done && this.mode.history.get(this.trial + 1)?.length) {
      this.trial += 1;
      this.step = 0;
    } else return false;
    return true;
  }

  back() {
    if (this.step > 0) this.step -= 1;
    else if (this.mode.history.get(this.trial - 1)?.length) {
      this.trial -= 1;
      this.step = this.now.length - 1;
    } else return false;
    return true;
  }

  // How many known steps follow the one that is shown, counted up to `enough`.
  ahead(enough) {
    let count = (this.now?.length ?? 0) - 1 - this.step;
    for (let trial = this.trial; count < enough; trial++) {
      const next = this.mode.history.get(trial + 1);
      if (!this.mode.history.get(trial)?.done || !next) break;
      count += next.length;
    }
    return Math.max(count, 0);
  }

  // Ask for more, or wait for what was asked before.
  more(steps) {
    this.asking ??= this.mode
      .more(this.trial, Math.ceil(steps))
      .catch(this.onError)
      .finally(() => (this.asking = null));
    return this.asking;
  }

  // Called once a frame with the time in milliseconds.
  tick(time) {
    const seconds = Math.min((time - this.last) / 1000, 0.25);
    this.last = time;
    if (!this.playing) return;
    const rate = Math.min(this.speed, 4000);
    const lead = Math.max(2, Math.min(rate * LEAD_SECONDS, 40));
    if (this.ahead(lead) < lead) void this.more(lead);
    this.due = Math.min(this.due + seconds * rate, rate * 0.25 + 1);
    const whole = Math.floor(this.due);
    if (!whole) return;
    const before = this.now;
    const gone = this.go(whole);
    this.due = gone < whole ? 0 : this.due - whole;
    if (gone || before !== this.now) this.onMove();
    else if (this.mode.over && !this.ahead(1)) this.play(false);
  }
}

// Keys work wherever the focus is, except where they mean something else.
export function bindKeys(player, others) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
    const typing = event.target.closest("select, textarea, input:not([type=range], [type=checkbox])");
    const range = event.target.matches("input[type=range]");
    const pressed = event.target.closest("button, [role=switch]") && event.key === " ";
    if (typing || pressed) return;
    if (range && !["scrub", "speed"].includes(event.target.id) && event.key !== " ") return;
    const act = keys(player, others, event.shiftKey ? 10 : 1)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function keys(player, others, step) {
  return {
    " ": () => player.play(!player.playing),
    ArrowLeft: () => player.move(-step),
    ArrowRight: () => player.move(step),
    ArrowUp: () => player.toTrial(player.trial - 1),
    ArrowDown: () => player.toTrial(player.trial + 1),
    Home: () => player.jump(player.trial, 0),
    End: () => player.jump(player.trial, Infinity),
    "+": () => player.faster(1),
    "=": () => player.faster(1),
    "-": () => player.faster(-1),
    ...others,
  };
}
