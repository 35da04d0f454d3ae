// The return of each trial as bars: how the agent gets better without learning a weight.

import { fit, onPoint, palette, write } from "./draw.js";
import { number, say } from "./dom.js";

const HEIGHT = 120;
const LEAST = 10; // places, so that the first bars are not too wide

export class TrialBars {
  constructor(canvas, onJump) {
    this.canvas = canvas;
    this.bars = [];
    onPoint(
      canvas,
      (place) => this.point(place),
      (place) => {
        const bar = this.barAt(place);
        if (bar) onJump(bar.trial);
      },
    );
  }

  // bars: [{trial, total, shown, memory}]; `shown` is the return up to the step that is shown.
  show(bars, current, optimum) {
    const now = JSON.stringify([bars, current, optimum]);
    if (now === this.before) return;
    this.before = now;
    Object.assign(this, { bars, current, optimum });
    this.draw();
  }

  draw() {
    const { pen, width, height } = fit(this.canvas, HEIGHT);
    const ink = palette();
    const top = Math.max(this.optimum ?? 0, ...this.bars.map((bar) => bar.total), 1);
    const level = (value) => height - 18 - (value / top) * (height - 36);
    const each = (width - 34) / Math.max(LEAST, this.bars.length);
    this.each = each;
    this.bars.forEach((bar, place) => {
      const x = 34 + place * each;
      const wide = Math.max(1, each - Math.min(4, each * 0.2));
      pen.globalAlpha = bar.trial === this.current ? 0.35 : 0.9;
      pen.fillStyle = bar.memory === false ? ink.quiet : ink.trail;
      pen.fillRect(x, level(bar.total), wide, level(0) - level(bar.total));
      pen.globalAlpha = 1;
      if (bar.trial === this.current) {
        pen.fillStyle = ink.accent;
        pen.fillRect(x, level(bar.shown), wide, level(0) - level(bar.shown));
        pen.fillRect(x, level(0) + 2, wide, 3);
      }
      if (each > 16 || bar.trial % Math.ceil(24 / each) === 0) {
        write(pen, String(bar.trial + 1), x + wide / 2, height - 6, { size: 10, align: "center" });
      }
    });
    this.drawScale(pen, width, level, top);
  }

  drawScale(pen, width, level, top) {
    const ink = palette();
    write(pen, "0", 28, level(0), { size: 10, align: "right" });
    const best = this.optimum ?? top;
    write(pen, number(best, 1), 28, level(best), { size: 10, align: "right" });
    if (this.optimum === null || this.optimum === undefined) return;
    pen.strokeStyle = ink.goal;
    pen.setLineDash([3, 4]);
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(34, level(best));
    pen.lineTo(width, level(best));
    pen.stroke();
    pen.setLineDash([]);
  }

  barAt(place) {
    return this.bars[Math.floor((place.x - 34) / this.each)] ?? null;
  }

  point(place) {
    const bar = place && this.barAt(place);
    this.canvas.classList.toggle("pickable", Boolean(bar));
    if (bar) say("trials-says", `trial ${bar.trial + 1}: ${number(bar.total, 1)}`);
    else this.summary();
  }

  summary() {
    const best = this.optimum;
    const known = best === null || best === undefined;
    say("trials-says", known ? "" : `best possible ${number(best, 1)}`);
  }
}
