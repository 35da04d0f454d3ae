// Everything beside the room, told what to show: why the agent did what it did at one step.

import { Attention, strength } from "./attention.js";
import { Decision } from "./decision.js";
import { byId, number, say } from "./dom.js";
import { MemoryMap } from "./memory_map.js";
import { Neighbours } from "./neighbours.js";
import { TrialBars } from "./trials.js";

const PAUSE = 90; // milliseconds between two pictures of the slower panels

export class Panels {
  constructor(stage, player) {
    this.stage = stage;
    this.player = player;
    const jump = (trial) => player.toTrial(trial);
    this.trials = new TrialBars(byId("trials"), jump);
    this.decision = new Decision();
    this.attention = new Attention((spot) => this.pointAt(spot));
    this.map = new MemoryMap((id) => this.pointTo(id), jump);
    this.neighbours = new Neighbours((id) => this.pointTo(id), jump);
    this.shown = 0;
  }

  begin(mode, actions) {
    this.mode = mode;
    this.decision.begin({ actions, continuous: mode.info.continuous });
  }

  // The step that the player stands on, with all that is known of it.
  moment() {
    const { trial: index, step, now: trial } = this.player;
    if (!trial?.length) return null;
    const search = trial.search(step);
    const looks = trial.looks(step);
    const chunk = this.chunk(trial, search?.chosen ?? []);
    const path = chunk.map((part, place) => weighed(part, place, looks));
    return {
      index, step, trial, search, looks, chunk, path,
      probabilities: trial.probabilities[step], marks: trial.marked(step),
    };
  }

  // The steps of remembered chunks; a recorded trial that holds them may have to be read first.
  chunk(trial, ids) {
    const steps = [];
    for (const id of ids) {
      const entry = trial.entries.get(id);
      const source = entry && this.mode.history.get(entry.trial);
      if (entry && !source) this.mode.load(entry.trial).then(() => this.player.onMove(), () => {});
      if (!source) continue;
      const kept = trial.withoutLoops ? source.path() : source.actions.map((_, step) => step);
      for (const step of kept.slice(entry.start, entry.stop)) {
        const cell = [source.rows[step], source.columns[step]];
        steps.push(Object.assign(cell, { step, trial: entry.trial, reward: source.rewards[step] }));
      }
    }
    return steps;
  }

  show(moment, time, hurry) {
    this.facts(moment);
    if (!moment) {
      this.decision.clear();
      this.trials.show(this.mode?.bars() ?? [], -1, this.optimum);
      this.slow(null);
      return true;
    }
    const shown = moment.trial.earned[moment.step];
    const bars = this.mode.bars().map((bar) => (bar.trial === moment.index ? { ...bar, shown } : bar));
    this.trials.show(bars, moment.index, this.optimum);
    this.decision.show(moment);
    if (!hurry && time - this.shown < PAUSE) return false;
    this.shown = time;
    this.slow(moment);
    return true;
  }

  slow(moment) {
    const why = this.why(moment);
    byId("grid").setAttribute("aria-label", described(moment, this.stage.ground));
    const entries = moment?.trial.entries ?? new Map();
    this.attention.show(moment?.looks ?? null, moment?.chunk ?? [], why);
    this.map.show(entries, moment?.search ?? null, this.optimum ?? this.largest(entries), why);
    this.neighbours.show(moment?.search ?? null, entries, why);
  }

  largest(entries) {
    return Math.max(1, ...[...entries.values()].map((entry) => entry.return));
  }

  // Why nothing was retrieved, in words.
  why(moment) {
    if (!moment) return "Nothing to show yet.";
    const { settings, memory } = this.mode;
    if (settings && settings.alpha === null) return "This method has no memory.";
    if (memory.get(moment.index) === false) return "Its memory is taken away.";
    return moment.trial.entries.size ? "Nothing was retrieved." : "The memory is still empty.";
  }

  facts(moment) {
    say("fact-trial", moment ? String(moment.index + 1) : "–");
    say("fact-step", moment ? String(moment.step) : "–");
    say("fact-return", moment ? number(moment.trial.earned[moment.step], 1) : "–");
    const scrub = byId("scrub");
    scrub.max = String(Math.max((moment?.trial.length ?? 1) - 1, 0));
    scrub.value = String(moment?.step ?? 0);
  }

  // Show one remembered chunk on the room, in the table and on the map.
  pointTo(id) {
    const trial = this.player.now;
    this.stage.path = id === null || !trial ? null : this.chunk(trial, [id]);
    this.stage.dirty = true;
    this.map.mark(id);
  }

  pointAt(spot) {
    this.stage.spot = spot;
    this.stage.dirty = true;
  }

  redraw() {
    this.trials.before = null;
    this.player.onMove();
  }
}

// The room in words, for who cannot see it.
function described(moment, ground) {
  if (!moment) return "The room";
  const { trial, step, marks } = moment;
  if (ground.kind !== "grid") {
    return `The robot: at ${trial.columns[step]}, ${trial.rows[step]}, with a return of ${number(trial.earned[step])}`;
  }
  const place = ([row, column]) => `row ${row}, column ${column}`;
  const goal = marks?.goal ? `; the goal lies in ${place(marks.goal)}` : "";
  return `The room: the agent stands in ${place([trial.rows[step], trial.columns[step]])}${goal}`;
}

function weighed(part, place, looks) {
  const known = looks && place < looks.steps;
  return Object.assign(part, { weight: known ? strength(looks.mean(place), looks.steps) : 0.1 });
}
