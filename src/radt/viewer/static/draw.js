// What all canvases share: sharp lines on every screen, colours from the style sheet.

let colours = null;

export function palette() {
  if (colours) return colours;
  const probe = document.body.appendChild(document.createElement("i"));
  const resolved = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["paper", "card", "ink", "quiet", "line", "accent", "floor", "grid-line", "wall"];
  names.push("trail", "goal", "key", "agent", "paid", "chunk", "low", "high");
  colours = Object.fromEntries(names.map((name) => [name, resolved(name)]));
  probe.remove();
  return colours;
}

export function forgetColours() {
  colours = null;
}

// Give a canvas as many pixels as the screen shows; returns its context in CSS pixels.
export function fit(canvas, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.max(1, Math.floor(canvas.clientWidth));
  const tall = Math.max(1, Math.floor(height ?? canvas.clientHeight));
  if (canvas.width !== width * ratio || canvas.height !== tall * ratio) {
    canvas.width = width * ratio;
    canvas.height = tall * ratio;
    if (height !== undefined) canvas.style.height = `${tall}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, tall);
  return { pen, width, height: tall };
}

export function write(pen, text, x, y, { size = 11, colour, align = "left", weight = 400 } = {}) {
  pen.font = `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`;
  pen.fillStyle = colour ?? palette().quiet;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.fillText(text, x, y);
}

export function disc(pen, x, y, radius, colour) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
}

export function ring(pen, x, y, radius, colour, width = 1.5) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}

export function diamond(pen, x, y, radius) {
  pen.beginPath();
  pen.moveTo(x, y - radius);
  pen.lineTo(x + radius, y);
  pen.lineTo(x, y + radius);
  pen.lineTo(x - radius, y);
  pen.closePath();
}

// A colour between two, as the style sheet resolves them: rgb(...).
export function mix(one, other, share) {
  const [from, to] = [one, other].map((colour) => colour.match(/[\d.]+/g).map(Number));
  const part = Math.min(Math.max(share, 0), 1);
  const levels = [0, 1, 2].map((at) => Math.round(from[at] + (to[at] - from[at]) * part));
  return `rgb(${levels.join(" ")})`;
}

// Tell the panel which place the pointer is over, in CSS pixels, or null when it leaves.
export function onPoint(canvas, over, click) {
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointermove", (event) => over(place(event)));
  canvas.addEventListener("pointerleave", () => over(null));
  if (click) canvas.addEventListener("click", (event) => click(place(event)));
}
