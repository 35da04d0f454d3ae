// The room from above: walls, goal and key, the agent with its trail, and the chunk it remembers.

import { diamond, disc, fit, onPoint, palette, ring } from "./draw.js";
import { drawPlane } from "./plane.js";

const FADE = 0.96; // how much of its brightness a step of the trail keeps per later step
const GLIDE = 0.35; // how much of the way to its cell the drawn agent goes per frame
const ARROWS = {
  up: [0, -1], north: [0, -1], down: [0, 1], south: [0, 1],
  left: [-1, 0], west: [-1, 0], right: [1, 0], east: [1, 0],
};
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

export class Stage {
  constructor(canvas, onPick) {
    this.canvas = canvas;
    this.onPick = onPick;
    this.ground = null;
    this.moment = null;
    this.pickable = false;
    this.unseen = null; // cells to offer
    this.hover = null; // the cell under the pointer or the keyboard's cursor
    this.path = null; // cells of a chunk to point out
    this.spot = null; // one cell to point out
    this.agent = null; // where it is drawn, on its way to its cell
    onPoint(canvas, (place) => this.point(place), (place) => this.pick(this.cellAt(place)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
  }

  show(ground, actions) {
    this.ground = ground;
    this.actions = actions;
    this.moment = null;
    this.agent = null;
    this.dirty = true;
    const ratio = ground.kind === "grid" ? ground.width / ground.height : 1;
    this.canvas.style.aspectRatio = String(ratio);
  }

  at(moment) {
    this.moment = moment;
    this.dirty = true;
  }

  point(place) {
    const cell = place && this.cellAt(place);
    if (String(cell) !== String(this.hover)) this.dirty = true;
    this.hover = cell;
    this.canvas.classList.toggle("pickable", Boolean(this.pickable && cell));
  }

  cellAt({ x, y }) {
    if (this.ground?.kind !== "grid" || !this.frame) return null;
    const { side, left, top } = this.frame;
    const cell = [Math.floor((y - top) / side), Math.floor((x - left) / side)];
    return this.inside(cell) ? cell : null;
  }

  inside([row, column]) {
    const { width, height } = this.ground;
    return row >= 0 && column >= 0 && row < height && column < width;
  }

  key(event) {
    if (!this.pickable) return;
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (move) {
      const from = this.hover ?? [Math.floor(this.ground.height / 2), Math.floor(this.ground.width / 2)];
      const to = this.hover ? [from[0] + move[0], from[1] + move[1]] : from;
      if (this.inside(to)) this.hover = to;
      this.dirty = true;
    } else if (event.key === "Enter" && this.hover) this.pick(this.hover);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  pick(cell) {
    const walls = this.ground?.walls ?? [];
    const free = cell && !walls.some((wall) => String(wall) === String(cell));
    if (this.pickable && free) this.onPick(cell);
  }

  // Draw if anything changed since; called once a frame.
  draw() {
    if (!this.ground || !(this.dirty || this.gliding)) return;
    this.dirty = false;
    const { pen, width, height } = fit(this.canvas);
    if (this.ground.kind === "grid") this.drawGrid(pen, width, height);
    else if (this.ground.kind === "plane") drawPlane(pen, width, height, this);
  }

  drawGrid(pen, width, height) {
    const side = Math.min(width / this.ground.width, height / this.ground.height);
    const left = (width - side * this.ground.width) / 2;
    const top = (height - side * this.ground.height) / 2;
    this.frame = { side, left, top };
    pen.translate(left, top);
    this.drawFloor(pen, side);
    for (const cell of (!this.moment && this.unseen) || []) {
      disc(pen, ...middle(cell, side), Math.max(2, side * 0.07), palette().goal);
    }
    if (this.moment) this.drawTrail(pen, side);
    this.drawWay(pen, side);
    this.drawMarks(pen, side);
    if (this.moment) this.drawAgent(pen, side);
    if (this.hover && this.pickable) this.drawHover(pen, side);
  }

  drawFloor(pen, side) {
    const { width, height, walls } = this.ground;
    const ink = palette();
    pen.fillStyle = ink.floor;
    pen.beginPath();
    pen.roundRect(0, 0, width * side, height * side, 8);
    pen.fill();
    pen.strokeStyle = ink["grid-line"];
    pen.lineWidth = 1;
    pen.beginPath();
    for (let column = 1; column < width; column++) {
      pen.moveTo(column * side, 0);
      pen.lineTo(column * side, height * side);
    }
    for (let row = 1; row < height; row++) {
      pen.moveTo(0, row * side);
      pen.lineTo(width * side, row * side);
    }
    pen.stroke();
    pen.fillStyle = ink.wall;
    for (const [row, column] of walls) pen.fillRect(column * side, row * side, side, side);
  }

  drawTrail(pen, side) {
    const { trial, step } = this.moment;
    const light = new Map();
    for (let at = 0; at <= step; at++) {
      light.set(trial.rows[at] * this.ground.width + trial.columns[at], at);
    }
    pen.fillStyle = palette().trail;
    for (const [cell, at] of light) {
      const [row, column] = [Math.floor(cell / this.ground.width), cell % this.ground.width];
      pen.globalAlpha = 0.1 + 0.4 * FADE ** (step - at);
      pen.fillRect(column * side + 1, row * side + 1, side - 2, side - 2);
    }
    pen.globalAlpha = 1;
  }

  // The path of the chunk that is held, stronger where the policy looks; or of one pointed at.
  drawWay(pen, side) {
    const path = this.path ?? this.moment?.path;
    if (path?.length) {
      pen.strokeStyle = palette().chunk;
      pen.lineCap = "round";
      pen.lineJoin = "round";
      for (let at = 1; at < path.length; at++) {
        const [from, to] = [middle(path[at - 1], side), middle(path[at], side)];
        const weight = this.path ? 0.6 : path[at].weight;
        pen.globalAlpha = 0.25 + 0.75 * weight;
        pen.lineWidth = Math.max(1.5, side * (0.05 + 0.16 * weight));
        pen.beginPath();
        pen.moveTo(...from);
        pen.lineTo(...to);
        pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    if (this.spot) ring(pen, ...middle(this.spot, side), side * 0.42, palette().chunk, 3);
  }

  drawMarks(pen, side) {
    const marks = this.moment?.marks ?? this.ground.shown;
    const ink = palette();
    if (this.moment) {
      const { rows, columns } = this.moment.trial;
      ring(pen, (columns[0] + 0.5) * side, (rows[0] + 0.5) * side, side * 0.26, ink.quiet, 1.5);
    }
    if (!marks) return;
    pen.strokeStyle = ink.goal;
    pen.lineWidth = 2;
    for (const [row, column] of marks.others ?? []) {
      diamond(pen, (column + 0.5) * side, (row + 0.5) * side, side * 0.34);
      pen.stroke();
    }
    if (marks.goal) {
      diamond(pen, (marks.goal[1] + 0.5) * side, (marks.goal[0] + 0.5) * side, side * 0.4);
      pen.fillStyle = ink.goal;
      pen.fill();
    }
    if (marks.key) {
      ring(pen, (marks.key[1] + 0.5) * side, (marks.key[0] + 0.5) * side, side * 0.27, ink.key, side * 0.12);
    }
  }

  drawAgent(pen, side) {
    const { trial, step, probabilities } = this.moment;
    const cell = [trial.rows[step], trial.columns[step]];
    const far = !this.agent || Math.abs(this.agent[0] - cell[0]) + Math.abs(this.agent[1] - cell[1]) > 2.5;
    if (far || still.matches) this.agent = cell;
    else this.agent = this.agent.map((from, axis) => from + (cell[axis] - from) * GLIDE);
    this.gliding = Math.abs(this.agent[0] - cell[0]) + Math.abs(this.agent[1] - cell[1]) > 0.01;
    const [y, x] = this.agent.map((part) => (part + 0.5) * side);
    const paid = step > 0 && trial.rewards[step - 1] > 0;
    this.drawProbabilities(pen, side, x, y, probabilities);
    disc(pen, x, y, side * 0.3, palette().card);
    disc(pen, x, y, side * 0.26, paid ? palette().paid : palette().agent);
  }

  // Wedges around the agent, as long as the actions are likely.
  drawProbabilities(pen, side, x, y, probabilities) {
    pen.strokeStyle = palette().ink;
    pen.lineWidth = Math.max(2, side * 0.09);
    pen.lineCap = "round";
    (probabilities ?? []).forEach((probability, action) => {
      const arrow = ARROWS[this.actions[action]];
      if (!arrow || probability < 0.02) return;
      const [from, to] = [side * 0.36, side * (0.36 + 0.34 * probability)];
      pen.globalAlpha = 0.25 + 0.75 * probability;
      pen.beginPath();
      pen.moveTo(x + arrow[0] * from, y + arrow[1] * from);
      pen.lineTo(x + arrow[0] * to, y + arrow[1] * to);
      pen.stroke();
    });
    pen.globalAlpha = 1;
  }

  drawHover(pen, side) {
    const [row, column] = this.hover;
    pen.strokeStyle = palette().goal;
    pen.lineWidth = 2;
    pen.setLineDash([4, 4]);
    pen.strokeRect(column * side + 2, row * side + 2, side - 4, side - 4);
    pen.setLineDash([]);
  }
}

function middle(cell, side) {
  return [(cell[1] + 0.5) * side, (cell[0] + 0.5) * side];
}
