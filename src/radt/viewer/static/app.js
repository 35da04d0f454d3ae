// The page: which run is shown, and what happens when something is chosen, picked or lost.

import { read } from "./client.js";
import { byId, element, fill, say } from "./dom.js";
import { Knobs } from "./knobs.js";
import { LiveMode, TraceMode } from "./modes.js";
import { Panels } from "./panels.js";
import { Player, bindKeys } from "./player.js";
import { Stage } from "./stage.js";
import { bindTheme } from "./theme.js";

const stage = new Stage(byId("grid"), pick);
const player = new Player({
  onMove: () => (moved = true),
  onError: (error) => complain(error.message),
  onWaiting: surprise,
});
const panels = new Panels(stage, player);
const knobs = new Knobs((settings) => attempt(() => change(settings)));
let mode = null;
let moved = true;
let settled = false; // the slower panels show the step that is shown
let placed = {}; // what was picked by hand: goal, key

function frame(time) {
  player.tick(time);
  if (moved) {
    moved = false;
    settled = false;
    stage.at(mode ? panels.moment() : null);
  }
  if (!settled && mode) settled = panels.show(stage.moment, time, !player.playing);
  stage.draw();
  requestAnimationFrame(frame);
}

// Run something that may fail, and say so in words where it does.
async function attempt(act) {
  try {
    await act();
  } catch (error) {
    complain(error.message);
  }
}

function complain(message, retry) {
  player.play(false);
  const banner = byId("banner");
  const button = banner.querySelector("button");
  banner.querySelector("span").textContent = message;
  banner.hidden = false;
  byId("loading").hidden = true;
  button.hidden = !retry;
  button.onclick = retry ? () => location.reload() : null;
}

function calm() {
  byId("banner").hidden = true;
}

async function listSources() {
  const sources = await read("api/sources");
  const live = sources.filter((source) => source.live);
  const options = live.map((source) => [`live ${source.id}`, source.name, "Live"]);
  for (const source of sources) {
    source.traces.forEach((name, place) => {
      options.push([`trace ${source.id} ${place}`, `${source.name}: ${name}`, "Recorded"]);
    });
  }
  fill(byId("source"), options);
  const recorded = options.length > live.length;
  const hint = "No recordings here yet: radt evaluate DIR --trace makes one, radt view DIR shows it.";
  say("about", recorded ? "" : hint);
  if (!options.length) complain("There is nothing to show: no weights and no recordings.");
  return options.length > 0;
}

async function choose(choice) {
  calm();
  player.play(false);
  mode?.close();
  const [kind, source, place] = choice.split(" ");
  await (kind === "live" ? openLive(source) : openTrace(source, place));
  document.documentElement.dataset.shown = choice; // for tests and tools
}

async function openLive(source) {
  byId("loading").hidden = false;
  byId("invite").hidden = true;
  const opened = new LiveMode(source, (reason) => mode === opened && complain(reason, true));
  mode = opened;
  placed = {};
  await startLive({}, true);
  byId("loading").hidden = true;
}

// Put the agent into a task; `asking`: only show the room until a goal is picked, if one can be.
async function startLive(choice, asking = false) {
  const env = byId("env").value;
  const named = mode.info?.envs.includes(env) ? { env } : {};
  const info = await mode.start({ ...named, ...choice });
  const waiting = asking && info.pick.length > 0;
  mode.waiting = waiting;
  stage.show(info.ground, info.actions);
  stage.pickable = info.pick.length > 0;
  stage.ground.shown = waiting ? null : info.ground.marks[0]?.marks;
  fill(byId("env"), info.envs.map((name) => [name, name]), info.env);
  const byHand = info.pick.length ? [["", "picked by hand"]] : [];
  fill(byId("task"), [...byHand, ...info.tasks.map(taskOption)], waiting ? "" : (info.task ?? ""));
  byId("env-choice").hidden = info.envs.length < 2;
  byId("knobs").hidden = false;
  byId("invite").hidden = !waiting;
  byId("loading").hidden = true;
  explain(info.ground, info.pick.includes("key"));
  knobs.begin(info.settings, info.bounds);
  stage.unseen = waiting ? unseenCells(info) : null;
  const task = waiting ? null : seen(info.trained);
  introduce({ method: info.method, tasks: info.env, task, seed: info.seed });
  begin(info.actions, info.optimum, waiting ? "Pick a goal for the agent" : info.description);
  const picks = info.pick.includes("key") ? "a cell for it, then one for the key" : "a cell";
  const dots = stage.unseen ? " Dots mark those it was never trained on." : "";
  byId("invite").querySelector("span").textContent = `Click ${picks}.${dots}`;
  if (!waiting) player.play(true);
}

// The cells that hide no goal of training, for rooms small enough to show them.
function unseenCells({ ground, learned, pick }) {
  if (!pick.length || !learned.length || ground.width * ground.height > 400) return null;
  const known = new Set(learned.map(String));
  const cells = [];
  for (let row = 0; row < ground.height; row++) {
    for (let column = 0; column < ground.width; column++) {
      if (!known.has(String([row, column]))) cells.push([row, column]);
    }
  }
  return cells;
}

function taskOption({ task, says, trained }) {
  return [String(task), `${task}: ${says}`, trained ? "Trained on" : "Never seen in training"];
}

async function openTrace(source, place) {
  byId("knobs").hidden = true;
  byId("invite").hidden = true;
  byId("env-choice").hidden = true;
  const opened = new TraceMode(source, place);
  const info = await opened.open();
  mode = opened;
  stage.pickable = false;
  fill(byId("task"), info.tasks.map(taskOption));
  if (info.cut) say("about", `This trace was cut: ${info.cut}.`);
  await chooseTask(info.tasks[0].task);
}

async function chooseTask(task) {
  const chosen = await mode.choose(task);
  stage.show(mode.ground, chosen.actions);
  explain(mode.ground, false);
  introduce({ method: mode.info.method, tasks: mode.info.env, task: seen(chosen.trained) });
  begin(chosen.actions, chosen.optimum, chosen.says);
}

// Show in the legend what there is to see.
function explain(ground, withKey) {
  const plane = ground.kind === "plane";
  const kinds = plane ? (ground.kinds ?? []) : ["goal"];
  const entry = (name) => document.querySelector(`.legend .${name}`);
  entry("key").hidden = !withKey;
  entry("object").hidden = !kinds.includes("object");
  entry("goal").hidden = !kinds.includes("goal");
  entry("goal").textContent = plane ? "goal" : "goal, hidden from it";
  entry("agent").textContent = plane ? "robot" : "agent";
}

// Name the agent, and say honestly whether it was trained on this very task.
function introduce(facts) {
  const words = Object.entries(facts).filter(([, value]) => value !== null && value !== undefined);
  byId("who").replaceChildren(
    ...words.flatMap(([name, value]) => [
      element("dt", { textContent: name }),
      element("dd", { textContent: String(value) }),
    ]),
  );
}

const seen = (trained) => (trained ? "one it was trained on" : "never seen in training");

function begin(actions, optimum, says) {
  panels.optimum = optimum;
  panels.begin(mode, actions);
  panels.trials.optimum = optimum;
  panels.trials.summary();
  say("says", says);
  player.begin(mode);
}

// A click on a cell: hide the goal there, and the key with the next click where there is one.
function pick(cell) {
  const wanted = mode.info.pick;
  const next = wanted.find((name) => !(name in placed));
  if (!next) placed = {};
  placed[next ?? wanted[0]] = cell;
  const missing = wanted.filter((name) => !(name in placed));
  mode.waiting = missing.length > 0;
  if (missing.length) {
    player.play(false);
    stage.show(mode.info.ground, mode.info.actions);
    stage.ground.shown = { goal: placed.goal };
    say("says", `Now click where the ${missing[0]} lies`);
    byId("invite").hidden = true;
    return;
  }
  void attempt(async () => {
    calm();
    await startLive(placed);
  });
}

// A goal that nobody was trained on, other than the present one.
function surprise() {
  if (!(mode instanceof LiveMode) || !mode.info) return;
  const unseen = mode.info.tasks.filter(({ task, trained }) => !trained && task !== mode.info.task);
  const one = unseen[Math.floor(Math.random() * unseen.length)] ?? mode.info.tasks[0];
  placed = {};
  void attempt(() => startLive({ task: one.task }));
}

async function change(settings) {
  const again = await mode.change(settings);
  if (again) {
    player.jump(mode.history.last + 1, 0);
    player.play(true);
  }
}

function again() {
  if (!(mode instanceof LiveMode) || !mode.info) return;
  const same = Object.keys(placed).length ? placed : { task: mode.info.task };
  void attempt(() => startLive(same));
}

function bind() {
  byId("source").addEventListener("change", (event) => attempt(() => choose(event.target.value)));
  byId("env").addEventListener("change", () => {
    placed = {};
    void attempt(() => startLive({}, true));
  });
  byId("task").addEventListener("change", (event) => {
    const task = Number(event.target.value);
    placed = {};
    if (event.target.value === "") return;
    void attempt(() => (mode instanceof LiveMode ? startLive({ task }) : chooseTask(task)));
  });
  byId("surprise").addEventListener("click", surprise);
  byId("again").addEventListener("click", again);
  byId("help").addEventListener("click", () => byId("keys").showModal());
  bindTheme(() => panels.redraw());
  new ResizeObserver(() => panels.redraw()).observe(byId("grid"));
  bindKeys(player, {
    m: () => mode instanceof LiveMode && knobs.toggleMemory(),
    n: surprise,
    g: () => byId("grid").focus(),
    "?": () => byId("keys").showModal(),
  });
}

bind();
requestAnimationFrame(frame);
await attempt(async () => {
  if (await listSources()) await choose(byId("source").value);
});
document.documentElement.dataset.ready = "true";
