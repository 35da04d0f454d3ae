// How the deciding token's cross-attention is spread over the chosen chunk, layer by layer.

import { fit, onPoint, palette, write } from "./draw.js";
import { byId, percent, say } from "./dom.js";

const ROW = 22;
const LEFT = 52;

// How strongly a share of the attention is drawn: fully where it is five times an even share.
export function strength(share, steps) {
  return Math.min(1, ((share * steps) / 5) ** 0.8);
}

export class Attention {
  constructor(onSpot) {
    this.canvas = byId("attention");
    this.onSpot = onSpot;
    this.looks = null;
    onPoint(this.canvas, (place) => this.point(place));
  }

  // chunk: steps as [{row, column, step, reward, trial}], in the order the policy reads them.
  show(looks, chunk, why) {
    this.looks = looks && chunk.length === looks.steps ? looks : null;
    this.chunk = chunk;
    this.why = why;
    this.draw();
    if (!this.pointed) this.summary();
  }

  draw() {
    const layers = this.looks?.layers ?? 0;
    this.canvas.hidden = !layers;
    if (!layers) return;
    const { pen, width } = fit(this.canvas, layers * (ROW + 3) + 26);
    const ink = palette();
    const each = (width - LEFT) / this.looks.steps;
    this.each = each;
    for (let layer = 0; layer < layers; layer++) {
      const y = layer * (ROW + 3);
      write(pen, `layer ${layer + 1}`, 0, y + ROW / 2);
      pen.fillStyle = ink.floor;
      pen.fillRect(LEFT, y, width - LEFT, ROW);
      pen.fillStyle = ink.chunk;
      for (let step = 0; step < this.looks.steps; step++) {
        pen.globalAlpha = strength(this.looks.weight(layer, step), this.looks.steps);
        pen.fillRect(LEFT + step * each, y, Math.max(1, each), ROW);
      }
      pen.globalAlpha = 1;
    }
    this.drawSteps(pen, width, layers * (ROW + 3));
  }

  // Where the chunk earned something, and which steps it holds.
  drawSteps(pen, width, y) {
    pen.fillStyle = palette().paid;
    this.chunk.forEach(({ reward }, place) => {
      if (reward > 0) pen.fillRect(LEFT + place * this.each, y, Math.max(1, this.each), 3);
    });
    const [first, last] = [this.chunk[0], this.chunk[this.chunk.length - 1]];
    write(pen, `step ${first.step}`, LEFT, y + 13, { size: 10 });
    write(pen, `step ${last.step}`, width, y + 13, { size: 10, align: "right" });
    write(pen, "paid", 0, y + 3, { size: 10, colour: palette().paid });
  }

  summary() {
    if (!this.looks) {
      say("attention-says", this.why ?? "");
      return;
    }
    let best = 0;
    for (let place = 1; place < this.looks.steps; place++) {
      if (this.looks.mean(place) > this.looks.mean(best)) best = place;
    }
    say("attention-says", `most at ${this.named(best)}`);
  }

  named(place) {
    const { step, trial } = this.chunk[place];
    return `step ${step} of trial ${trial + 1}, ${percent(this.looks.mean(place))}`;
  }

  point(place) {
    const at = place && this.looks ? Math.floor((place.x - LEFT) / this.each) : -1;
    this.pointed = at >= 0 && at < this.chunk.length;
    this.onSpot(this.pointed ? this.chunk[at] : null);
    if (this.pointed) say("attention-says", this.named(at));
    else this.summary();
  }
}
