// The two things that can be shown: a live run, which goes on when asked, and a recorded one.

import { Live, read } from "./client.js";
import { History } from "./history.js";

const MOST_AT_ONCE = 128;

export class LiveMode {
  constructor(source, onLost) {
    this.source = source;
    this.live = new Live(onLost);
    this.history = new History();
    this.info = null;
    this.over = false;
    this.memory = new Map(); // trial -> whether it had its memory
  }

  async start(choice = {}) {
    const seed = chosenSeed() ?? Math.floor(Math.random() * 2 ** 31);
    const info = await this.live.ask({ do: "start", source: this.source, seed, ...choice });
    this.history = new History();
    this.memory = new Map();
    this.over = false;
    this.info = info;
    this.settings = info.settings;
    return info;
  }

  async more(_, steps) {
    if (this.over) return;
    this.take(await this.live.ask({ do: "advance", steps: Math.min(steps, MOST_AT_ONCE) }));
  }

  async change(settings) {
    const answer = await this.live.ask({ do: "change", ...settings });
    this.settings = answer.settings;
    this.take(answer);
    return answer.events.length > 0;
  }

  take(answer) {
    for (const event of answer.events) {
      if (event.event === "over") this.over = true;
      if (event.event === "trial") this.memory.set(event.trial, this.settings.memory);
      this.history.live(event);
    }
  }

  async load(trial) {
    return Boolean(this.history.get(trial)?.length);
  }

  bars() {
    return [...this.history.trials.values()].map((trial) => ({
      trial: trial.index, total: trial.total, memory: this.memory.get(trial.index),
    }));
  }

  close() {
    this.live.close();
  }
}

// An address that ends in #seed=7 starts the same run again.
function chosenSeed() {
  const text = new URLSearchParams(location.hash.slice(1)).get("seed");
  return /^\d{1,9}$/.test(text ?? "") ? Number(text) : null;
}

export class TraceMode {
  constructor(source, number) {
    this.path = `api/sources/${encodeURIComponent(source)}/traces/${number}`;
    this.history = new History();
    this.loading = new Map();
    this.over = false;
    this.memory = new Map();
    this.settings = null;
  }

  async open() {
    this.info = await read(this.path);
    return this.info;
  }

  async choose(task) {
    this.task = this.info.tasks.find((known) => known.task === task) ?? this.info.tasks[0];
    this.history = new History();
    this.loading = new Map();
    this.over = false;
    await this.load(this.task.trials[0]);
    return this.task;
  }

  async load(trial) {
    if (!this.task.trials.includes(trial)) return false;
    if (this.history.get(trial)) return true;
    if (!this.loading.has(trial)) this.loading.set(trial, this.fetch(trial, this.history));
    await this.loading.get(trial);
    return true;
  }

  async fetch(trial, history) {
    const part = await read(`${this.path}/tasks/${this.task.task}/trials/${trial}`);
    this.ground = part.ground;
    history.recorded(part);
  }

  async more(trial) {
    const next = trial + 1;
    this.over = !this.task.trials.includes(next);
    if (!this.over) await this.load(next);
  }

  bars() {
    return this.task.trials.map((trial, place) => ({ trial, total: this.task.returns[place] }));
  }

  close() {}
}
