// What was recorded so far, trial by trial, kept small: numbers in columns, attention as it came.

export class Trial {
  constructor(index, entries = {}) {
    this.index = index;
    this.entries = readEntries(entries); // by id: what the memory held as the trial began
    this.withoutLoops = Boolean(entries.without_loops); // how it remembers
    this.rows = [];
    this.columns = [];
    this.bodies = []; // of a robot, and where the camera is
    this.centres = [];
    this.actions = [];
    this.rewards = [];
    this.earned = [0]; // before each step
    this.probabilities = [];
    this.attention = [];
    this.searches = [];
    this.marks = [];
    this.done = false;
    this.kept = null; // how many chunks of it went to the memory
  }

  get length() {
    return this.actions.length;
  }

  get total() {
    return this.earned[this.earned.length - 1];
  }

  append(part) {
    for (const [row, column] of part.cells) {
      this.rows.push(row);
      this.columns.push(column);
    }
    this.bodies.push(...(part.bodies ?? []));
    this.centres.push(...(part.centres ?? []));
    this.actions.push(...part.actions);
    this.probabilities.push(...part.probabilities);
    this.attention.push(...part.attention);
    this.searches.push(...part.searches.map(small));
    for (const mark of part.marks) {
      const last = this.marks[this.marks.length - 1];
      if (!last || JSON.stringify(last.marks) !== JSON.stringify(mark.marks)) this.marks.push(mark);
    }
    for (const reward of part.rewards) {
      this.rewards.push(reward);
      this.earned.push(this.total + reward);
    }
  }

  // The latest search up to a step, and with it the chunk that is held.
  search(step) {
    return latest(this.searches, step);
  }

  marked(step) {
    return latest(this.marks, step)?.marks ?? null;
  }

  // The steps that are left of a trial that is remembered without its unrewarded loops, as
  // `loop_erased` of memory/loop_erasure.py leaves them.
  path() {
    const path = [];
    let places = new Map(); // since the last reward: a cell -> its place on the path
    const last = this.rewards.findLastIndex((reward) => reward > 0);
    for (let step = 0; step < (last < 0 ? this.length : last + 1); step++) {
      const cell = `${this.rows[step]},${this.columns[step]}`;
      if (places.has(cell)) {
        const loop = path.splice(places.get(cell));
        for (const left of loop) places.delete(`${this.rows[left]},${this.columns[left]}`);
      }
      places.set(cell, path.length);
      path.push(step);
      if (this.rewards[step] > 0) places = new Map();
    }
    return path;
  }

  looks(step) {
    const packed = this.attention[step];
    if (!packed) return null;
    const text = atob(packed.bytes);
    const steps = text.length / packed.layers;
    const weight = (layer, place) =>
      (text.charCodeAt(layer * steps + place) / 255) * packed.peak;
    const mean = (place) => {
      let sum = 0;
      for (let layer = 0; layer < packed.layers; layer++) sum += weight(layer, place);
      return sum / packed.layers;
    };
    return { layers: packed.layers, steps, weight, mean };
  }
}

function latest(items, step) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].step <= step) low = middle + 1;
    else high = middle;
  }
  return low ? items[low - 1] : null;
}

function small(search) {
  return {
    ...search,
    ids: Int32Array.from(search.ids),
    relevance: Float32Array.from(search.relevance),
    utility: Float32Array.from(search.utility),
    score: Float32Array.from(search.score, (value) => value ?? NaN),
    verdict: Uint8Array.from(search.verdict),
  };
}

function readEntries(columns) {
  const entries = new Map();
  (columns.ids ?? []).forEach((id, place) => {
    const entry = { id };
    for (const name of ["trial", "position", "start", "stop", "return", "x", "y"]) {
      entry[name] = columns[name][place];
    }
    entries.set(id, entry);
  });
  return entries;
}

export class History {
  constructor() {
    this.trials = new Map();
  }

  get(index) {
    return this.trials.get(index);
  }

  get last() {
    return Math.max(-1, ...this.trials.keys());
  }

  // Take in what a live run says happened.
  live(event) {
    if (event.event === "trial") this.trials.set(event.trial, new Trial(event.trial, event.entries));
    else if (event.event === "steps") this.get(event.trial)?.append(event);
    else if (event.event === "again") this.trials.delete(event.trial);
    else if (event.event === "end") {
      const trial = this.get(event.trial);
      if (trial) Object.assign(trial, { done: true, kept: event.kept });
    }
  }

  recorded(part) {
    const trial = new Trial(part.trial, part.entries);
    trial.append(part);
    trial.done = true;
    this.trials.set(part.trial, trial);
    return trial;
  }
}
