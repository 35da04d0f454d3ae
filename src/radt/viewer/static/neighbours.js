// What a search found: relevance, utility, score, and why each was kept or dropped.

import { byId, element, number, say } from "./dom.js";

const CHOSEN = 0;
const OUTSCORED = 1;
const REASONS = {
  2: "dropped: not among the l most similar",
  3: "dropped: too similar to the query",
  4: "dropped: from the query's own trial",
  5: "absent",
};

export class Neighbours {
  constructor(onEntry, onJump) {
    this.body = byId("neighbours").querySelector("tbody");
    this.table = byId("neighbours");
    this.onEntry = onEntry;
    this.onJump = onJump;
    this.rows = [];
    this.search = undefined;
  }

  show(search, entries, why) {
    if (search === this.search && why === this.why) return;
    Object.assign(this, { search, why });
    const order = search ? byScore(search) : [];
    this.table.hidden = !order.length;
    say("neighbours-says", order.length ? this.words(search) : why);
    const share = search ? shares(search) : null;
    order.forEach((place, rank) => this.fillRow(rank, place, entries, share));
    while (this.rows.length > order.length) this.rows.pop().row.remove();
  }

  words(search) {
    const found = search.ids.length === 1 ? "1 found" : `${search.ids.length} found`;
    return `${found} at step ${search.step}`;
  }

  fillRow(rank, place, entries, share) {
    const { search } = this;
    const row = this.rows[rank] ?? this.newRow();
    const [id, verdict] = [search.ids[place], search.verdict[place]];
    const entry = entries.get(id);
    row.id = id;
    row.trial = entry?.trial;
    row.row.classList.toggle("chosen", verdict === CHOSEN);
    row.chunk.textContent = entry ? `trial ${entry.trial + 1}, ${entry.start}–${entry.stop - 1}` : `#${id}`;
    row.relevance.textContent = search.relevance[place].toFixed(3);
    row.utility.textContent = number(search.utility[place], 1);
    row.alike.style.width = `${50 * share.alike[place]}%`;
    row.useful.style.width = `${50 * Math.min(share.useful[place], 1)}%`;
    row.score.textContent = Number.isNaN(search.score[place]) ? "–" : search.score[place].toFixed(2);
    row.reason.textContent = reason(search, place, verdict);
  }

  newRow() {
    const cell = (className = "") => element("td", { className });
    const [alike, useful] = ["alike", "useful"].map((className) => element("i", { className }));
    const score = element("span");
    const bars = element("span", { className: "bars" }, alike, useful);
    const made = {
      chunk: cell(), relevance: cell("number"), utility: cell("number"),
      alike, useful, score, reason: cell("reason"),
    };
    const scored = element("td", { className: "score" }, bars, score);
    made.row = element("tr", { tabIndex: 0 }, made.chunk, made.relevance, made.utility, scored, made.reason);
    made.row.addEventListener("pointerenter", () => this.onEntry(made.id));
    made.row.addEventListener("pointerleave", () => this.onEntry(null));
    made.row.addEventListener("focus", () => this.onEntry(made.id));
    made.row.addEventListener("blur", () => this.onEntry(null));
    made.row.addEventListener("click", () => this.onJump(made.trial));
    this.rows.push(made);
    this.body.append(made.row);
    return made;
  }
}

function byScore({ score, ids }) {
  const level = (place) => (Number.isNaN(score[place]) ? -Infinity : score[place]);
  return Array.from(ids.keys()).sort((one, other) => level(other) - level(one) || one - other);
}

// The two parts of the score, as Eq. 4 adds them: both scaled to 0..1 over what was scored.
function shares(search) {
  const scored = Array.from(search.score.keys()).filter((place) => !Number.isNaN(search.score[place]));
  const scaled = (values) => {
    const known = scored.map((place) => values[place]);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return (place) => (high > low ? (values[place] - low) / (high - low) : 0);
  };
  const near = scaled(search.relevance);
  const alike = Array.from(search.ids.keys(), (place) => (scored.includes(place) ? near(place) : 0));
  const useful = alike.map((part, place) => Math.max((search.score[place] || 0) - part, 0));
  return { alike, useful };
}

function reason(search, place, verdict) {
  if (verdict === CHOSEN) return "kept: best score";
  if (verdict !== OUTSCORED) return REASONS[verdict] ?? "dropped";
  const best = Math.max(...search.score.filter((value) => !Number.isNaN(value)));
  const behind = best - search.score[place];
  if (behind >= 0.005) return `dropped: ${behind.toFixed(2)} behind`;
  const kept = search.verdict.indexOf(CHOSEN);
  const older = search.relevance[place] >= search.relevance[kept];
  return older ? "dropped: tie, older" : "dropped: tie, less similar";
}
