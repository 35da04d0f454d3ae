// The memory from above: its keys on two principal axes, coloured by return, query and hits marked.

import { disc, fit, mix, onPoint, palette, ring, write } from "./draw.js";
import { byId, number, say } from "./dom.js";

const HEIGHT = 190;
const MARGIN = 18;

export class MemoryMap {
  constructor(onEntry, onJump) {
    this.canvas = byId("map");
    this.onEntry = onEntry;
    this.entries = new Map();
    this.pointed = null;
    onPoint(
      this.canvas,
      (place) => this.point(place),
      (place) => {
        const entry = this.entryAt(place);
        if (entry) onJump(entry.trial);
      },
    );
  }

  show(entries, search, top, why) {
    Object.assign(this, { entries, search, top, why });
    this.draw();
    if (!this.pointed) this.summary();
  }

  summary() {
    const count = this.entries.size;
    const words = count === 1 ? "1 chunk" : `${count} chunks`;
    say("map-says", count ? `${words} remembered` : this.why);
  }

  draw() {
    this.canvas.hidden = this.entries.size === 0;
    if (this.canvas.hidden) return;
    const { pen, width, height } = fit(this.canvas, HEIGHT);
    const place = this.scale(width, height - 22);
    const ink = palette();
    const found = new Set(this.search?.ids ?? []);
    const chosen = new Set(this.search?.chosen ?? []);
    this.points = [];
    for (const entry of this.entries.values()) {
      const [x, y] = place(entry.x, entry.y);
      this.points.push({ x, y, entry });
      const colour = mix(ink.low, ink.high, entry.return / Math.max(this.top, 1e-9));
      disc(pen, x, y, 4.5, colour);
      if (found.has(entry.id)) ring(pen, x, y, 6.5, ink.quiet, 1);
    }
    for (const { x, y, entry } of this.points) {
      if (chosen.has(entry.id)) ring(pen, x, y, 8.5, ink.chunk, 3);
      if (entry.id === this.pointed) ring(pen, x, y, 11, ink.ink, 1.5);
    }
    if (this.search?.query) this.drawQuery(pen, ...place(...this.search.query));
    this.drawScale(pen, width, height);
  }

  scale(width, height) {
    const all = [...this.entries.values()].map(({ x, y }) => [x, y]);
    if (this.search?.query) all.push(this.search.query);
    const axis = (index, size) => {
      const values = all.map((point) => point[index]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const spread = high - low;
      if (spread < 1e-6) return () => size / 2;
      return (value) => MARGIN + ((value - low) / spread) * (size - 2 * MARGIN);
    };
    const [across, down] = [axis(0, width), axis(1, height)];
    return (x, y) => [across(x), down(y)];
  }

  drawQuery(pen, x, y, scale = 1) {
    pen.strokeStyle = palette().ink;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const [from, to] of [[4 * scale, 11 * scale], [-4 * scale, -11 * scale]]) {
      pen.moveTo(x + from, y);
      pen.lineTo(x + to, y);
      pen.moveTo(x, y + from);
      pen.lineTo(x, y + to);
    }
    pen.stroke();
  }

  drawScale(pen, width, height) {
    const ink = palette();
    const [left, long] = [22, 70];
    for (let x = 0; x < long; x++) {
      pen.fillStyle = mix(ink.low, ink.high, x / long);
      pen.fillRect(left + x, height - 14, 1.5, 7);
    }
    write(pen, "0", left - 6, height - 10, { size: 10, align: "right" });
    write(pen, `return ${number(this.top, 0)}`, left + long + 6, height - 10, { size: 10 });
    this.drawQuery(pen, width - 104, height - 10, 0.55);
    write(pen, "query", width - 94, height - 10, { size: 10 });
    ring(pen, width - 50, height - 10, 4.5, ink.chunk, 2.5);
    write(pen, "chosen", width - 2, height - 10, { size: 10, align: "right" });
  }

  entryAt(place) {
    const near = (this.points ?? [])
      .map((point) => ({ ...point, far: Math.hypot(point.x - place.x, point.y - place.y) }))
      .filter((point) => point.far < 12)
      .sort((one, other) => one.far - other.far);
    return near[0]?.entry ?? null;
  }

  point(place) {
    const entry = place && this.entryAt(place);
    this.canvas.classList.toggle("pickable", Boolean(entry));
    this.onEntry(entry?.id ?? null);
    if (entry) {
      const steps = `steps ${entry.start}–${entry.stop - 1}`;
      say("map-says", `trial ${entry.trial + 1}, ${steps}, return ${number(entry.return, 1)}`);
    } else this.summary();
  }

  mark(id) {
    if (id === this.pointed) return;
    this.pointed = id;
    this.draw();
  }
}
