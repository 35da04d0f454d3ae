// Robots: bodies in a plane, seen by a camera that may follow them. Cells are (y, x), and y goes up.

import { disc, palette, ring } from "./draw.js";

const FADE = 0.985; // how much of its brightness a step of the trail keeps per later step
const MARK = 0.5; // between two marks of a floor
const INKS = { ground: "wall", goal: "goal", object: "key", robot: "agent" };

export function drawPlane(pen, width, height, { ground, moment, path, spot }) {
  const ink = palette();
  pen.fillStyle = ink.floor;
  pen.beginPath();
  pen.roundRect(0, 0, width, height, 8);
  pen.fill();
  if (!moment) return;
  const { trial, step } = moment;
  const camera = ground.size ? follow(ground, trial, step, width, height) : fitted(trial, width, height);
  const paid = ground.sparse && step > 0 && trial.rewards[step - 1] > 0;
  const bodies = (...kinds) => drawBodies(pen, camera, ground, trial.bodies[step] ?? [], kinds, paid);
  if (typeof ground.floor === "number") drawFloor(pen, camera, ground.floor, width);
  bodies("ground", "goal");
  drawTrail(pen, camera, trial, step);
  drawChunk(pen, camera, path ?? moment.path ?? [], Boolean(path));
  if (spot) ring(pen, ...camera.at(spot), 9, ink.chunk, 3);
  ring(pen, ...camera.at([trial.rows[0], trial.columns[0]]), 5, ink.quiet, 1.5);
  if (ground.size) bodies("object", "robot");
  else disc(pen, ...camera.at([trial.rows[step], trial.columns[step]]), 7, ink.agent);
}

// Where a cell is on the canvas: as the camera of a sketch sees it.
function follow(ground, trial, step, width, height) {
  const [x, y] = trial.centres[step];
  const scale = Math.min(width, height) / ground.size;
  const at = ([up, across]) => [width / 2 + (across - x) * scale, height / 2 - (up - y) * scale];
  return { at, scale, left: x - width / scale / 2 };
}

// The same for numbers of which nothing is known: they fill the canvas, the first one downwards.
function fitted(trial, width, height) {
  const axis = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => 16 + ((value - low) / Math.max(high - low, 1e-6)) * (size - 32);
  };
  const [down, across] = [axis(trial.rows, height), axis(trial.columns, width)];
  return { at: ([row, column]) => [across(column), down(row)] };
}

function drawFloor(pen, { at, scale, left }, floor, width) {
  pen.strokeStyle = palette().wall;
  pen.lineWidth = 1;
  pen.beginPath();
  const [, y] = at([floor, 0]);
  pen.moveTo(0, y);
  pen.lineTo(width, y);
  for (let mark = Math.ceil(left / MARK) * MARK; (mark - left) * scale < width; mark += MARK) {
    const [x] = at([floor, mark]);
    pen.moveTo(x, y);
    pen.lineTo(x, y + 6);
  }
  pen.stroke();
}

function drawBodies(pen, { at, scale }, { radii, kinds }, bodies, wanted, paid) {
  const ink = palette();
  pen.lineCap = "round";
  bodies.forEach(([x0, y0, x1, y1], place) => {
    const kind = kinds[place];
    if (!wanted.includes(kind)) return;
    const [from, to] = [at([y0, x0]), at([y1, x1])];
    const wide = 2 * Math.max(radii[place] * scale, kind === "ground" ? 0.5 : 3);
    // An edge of the floor's colour tells limbs apart.
    if (kind !== "ground") line(pen, from, to, wide + 2, ink.floor);
    pen.globalAlpha = kind === "goal" ? 0.75 : 1;
    line(pen, from, to, wide, paid && kind === "robot" ? ink.paid : ink[INKS[kind]]);
    pen.globalAlpha = 1;
  });
}

function drawTrail(pen, { at }, { rows, columns }, step) {
  for (let place = 1; place <= step; place++) {
    pen.globalAlpha = 0.25 + 0.75 * FADE ** (step - place);
    const [from, to] = [place - 1, place].map((one) => at([rows[one], columns[one]]));
    line(pen, from, to, 2.5, palette().trail);
  }
  pen.globalAlpha = 1;
}

// The path of the chunks that are held, stronger where the policy looks; or of one pointed at.
function drawChunk(pen, { at }, path, pointed) {
  for (let place = 1; place < path.length; place++) {
    const { step, trial, weight } = path[place];
    const before = path[place - 1];
    if (before.trial !== trial || before.step > step) continue; // another chunk begins
    const strength = pointed ? 0.6 : weight;
    pen.globalAlpha = 0.25 + 0.75 * strength;
    line(pen, at(before), at(path[place]), 1.5 + 4 * strength, palette().chunk);
  }
  pen.globalAlpha = 1;
}

function line(pen, from, to, width, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}
