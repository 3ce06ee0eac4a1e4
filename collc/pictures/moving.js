"use strict";
// Pictures that move: chunks on their way through a network, on the clock of a slider; what one points at is followed
// in all pictures of the panel.
const UNITS = [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3], ["ps", 1]];
const timeText = (ps) => {
  const [name, scale] = UNITS.find(([, size]) => ps >= size) || UNITS[4];
  return (ps / scale).toFixed(6).replace(/\.?0+$/, "") + name;
};
const unpack = ([width, text]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return width === 1 ? bytes : width === 2 ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
};
const listed = (words, most, what) =>
  words.slice(0, most).join(what) + (words.length > most ? `${what}and ${words.length - most} more` : "");
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
// Without motion, the clock jumps from one beginning of a transfer to the next.
const still = matchMedia("(prefers-reduced-motion: reduce)");
const SAMPLES = 12;
const parsed = new Map();
const read = (element) => {
  if (!parsed.has(element)) parsed.set(element, JSON.parse(element.textContent));
  return parsed.get(element);
};

/** One network on a canvas, with the transfers on its links, or if these are too many, with the use of its links. */
class Lane {
  constructor(canvas, number) {
    const element = document.querySelectorAll("script.clip")[number];
    const data = read(element);
    this.network = element.dataset.network;
    const network = read(document.querySelectorAll("script.network")[Number(this.network)]);
    Object.assign(this, network, data, { canvas, context: canvas.getContext("2d") });
    this.whole = "item" in data;
    const packed = this.whole ? ["item", "owner"] : ["carried", "busy", "received", "arrived"];
    for (const name of ["line", "begin", "kind", ...packed]) this[name] = unpack(data[name]);
    let begin = 0;
    this.begin = Float64Array.from(this.begin, (more) => (begin += more));
    this.held = data.held && data.held.map(unpack);
    this.count = this.line.length;
    this.longest = Math.max(0, ...this.kinds.map(([, delay]) => delay));
    this.gone = new Set(data.gone);
    let rank = 0;
    this.ranks = this.devices.map((_, device) => (this.gone.has(device) ? -1 : rank++));
    this.receives = this.received || new Uint32Array(this.devices.length);
    if (this.whole) for (let row = 0; row < this.count; row++) this.receives[this.target(row)] += 1;
    const ruler = document.createElementNS("http://www.w3.org/2000/svg", "path");
    this.shapes = this.lines.map(([, , path]) => {
      if (!path) return null;
      ruler.setAttribute("d", path);
      const length = ruler.getTotalLength();
      const points = Array.from({ length: SAMPLES + 1 }, (_, k) => ruler.getPointAtLength((length * k) / SAMPLES));
      return { path: new Path2D(path), points };
    });
    this.broken = this.removed.map((path) => new Path2D(path));
    canvas.style.setProperty("--shape", 1040 / this.height);
    canvas.style.aspectRatio = `1040 / ${this.height}`;
  }
  source(row) { return this.lines[this.line[row]][0]; }
  target(row) { return this.lines[this.line[row]][1]; }
  start(row) { return this.begin[row] * this.unit; }
  free(row) { return (this.begin[row] + this.kinds[this.kind[row]][0]) * this.unit; }
  arrival(row) { return (this.begin[row] + this.kinds[this.kind[row]][1]) * this.unit; }
  ends(line) { return `${this.devices[this.lines[line][0]][0]} -> ${this.devices[this.lines[line][1]][0]}`; }
  tip(row) {
    const [, , size, does] = this.kinds[this.kind[row]];
    const span = `${timeText(this.start(row))} to ${timeText(this.arrival(row))}`;
    if (!this.items) return `${this.ends(this.line[row])}, ${span}`;
    return `${this.items[this.item[row]]}, ${size}${does}: ${this.ends(this.line[row])}, ${span}`;
  }
  rows(keep) {
    const rows = [];
    for (let row = 0; row < this.count; row++) if (keep(row)) rows.push(row);
    return rows;
  }
  /** The first row that begins after a time. */
  after(time) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start(middle) <= time) low = middle + 1; else high = middle;
    }
    return low;
  }
  active(time) {
    const rows = [];
    const end = this.after(time);
    for (let row = this.after(time - this.longest * this.unit - 1); row < end; row++) {
      if (time < Math.max(this.arrival(row), this.free(row))) rows.push(row);
    }
    return rows;
  }
  /** Of each device, how many transfers to it have arrived. */
  arrivals(time) {
    const counts = new Uint32Array(this.devices.length);
    if (!this.whole) {
      return counts.map((_, device) => {
        let come = time < this.time ? 0 : 16;
        while (come < 16 && (this.arrived[device * 16 + come] + 1) * this.unit <= time) come += 1;
        return Math.floor((this.receives[device] * come) / 16);
      });
    }
    const end = this.after(time);
    for (let row = 0; row < end; row++) if (this.arrival(row) <= time) counts[this.target(row)] += 1;
    return counts;
  }
  /** What is at a point of the picture: a device, a link, or nothing. */
  at(x, y) {
    const near = Math.max(this.radius + 2, 7);
    for (let device = 0; device < this.devices.length; device++) {
      const [, px, py] = this.devices[device];
      if (px !== undefined && (px - x) ** 2 + (py - y) ** 2 <= near ** 2) return { device };
    }
    let least = 49, line = -1;
    this.shapes.forEach((shape, number) => {
      for (const point of shape ? shape.points : []) {
        const far = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (far < least) { least = far; line = number; }
      }
    });
    return line < 0 ? null : { line };
  }
  /** The rows that belong to what is pointed at. */
  related(focus) {
    if (!focus) return [];
    if (focus.critical) return this.critical;
    if (focus.item !== undefined) return this.rows((row) => this.item[row] === focus.item);
    if (focus.line !== undefined) return this.rows((row) => this.line[row] === focus.line);
    return this.rows((row) => this.target(row) === focus.device || this.source(row) === focus.device);
  }
  words(focus, time) {
    if (focus.critical) {
      const waits = "each waits for the one before it, for its chunk or its link";
      return `Critical path: ${plural(this.critical.length, "transfer")}, ${waits}. ` +
        listed(this.critical.map((row) => this.tip(row)), 12, "; ");
    }
    if (focus.line !== undefined && !this.whole) {
      const links = this.links[focus.line] > 1 ? `${this.links[focus.line]} links, ` : "";
      const carried = plural(this.carried[focus.line], "transfer");
      return `${this.ends(focus.line)}: ${links}${carried}, in use ${this.busy[focus.line]} % of the time.`;
    }
    if (!this.items && focus.device === undefined) return this.ends(focus.line);
    const rows = this.related(focus);
    if (focus.item !== undefined) {
      const last = Math.max(...rows.map((row) => this.arrival(row)));
      const ways = rows.map((row) => `${this.ends(this.line[row])} at ${timeText(this.start(row))}`);
      return `${this.items[focus.item]}: ${plural(rows.length, "transfer")}, the last arrives at ${timeText(last)}. ` +
        listed(ways, 24, "; ");
    }
    if (focus.line !== undefined) {
      const what = rows.map((row) => `${this.items[this.item[row]]} at ${timeText(this.start(row))}`);
      return `${this.ends(focus.line)}: ${plural(rows.length, "transfer")}. ` + listed(what, 24, "; ");
    }
    if (!this.whole) {
      const about = `about ${this.arrivals(time)[focus.device]} of ${plural(this.receives[focus.device], "transfer")}`;
      return `${this.devices[focus.device][0]} at ${timeText(time)}: ${about} to it have arrived.`;
    }
    const came = rows.filter((row) => this.target(row) === focus.device && this.arrival(row) <= time);
    const text = `${this.devices[focus.device][0]} at ${timeText(time)}: ` +
      `${came.length} of ${plural(this.receives[focus.device], "transfer")} to it have arrived`;
    if (!this.held) return `${text}.`;
    const holds = new Set();
    let place = 0;
    this.held[0].forEach((count, item) => {
      for (const end = place + count; place < end; place++) if (this.held[1][place] === focus.device) holds.add(item);
    });
    for (const row of came) holds.add(this.item[row]);
    return `${text}; it holds ${plural(holds.size, "chunk")}: ` +
      listed([...holds].sort((a, b) => a - b).map((item) => this.items[item]), 24, ", ") + ".";
  }
  draw(time, focus, colors) {
    const { canvas, context } = this;
    const wide = canvas.clientWidth;
    if (!wide) return;
    const scale = (wide / 1040) * devicePixelRatio;
    const [width, height] = [Math.round(1040 * scale), Math.round(this.height * scale)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, 1040, this.height);
    const stroke = (shape, color, thick) => {
      context.strokeStyle = color;
      context.lineWidth = thick;
      context.stroke(shape);
    };
    for (const [x, y, w, h] of this.boxes) {
      context.strokeStyle = colors.rule;
      context.lineWidth = 1;
      context.strokeRect(x, y, w, h);
    }
    for (const shape of this.shapes) if (shape) stroke(shape.path, colors.rule, 1);
    context.setLineDash([2, 4]);
    for (const shape of this.broken) stroke(shape, colors.bad, 2);
    context.setLineDash([]);
    const chosen = focus ? new Set(this.related(focus)) : null;
    if (chosen && focus.device === undefined) {
      for (const row of chosen) {
        const shape = this.shapes[this.line[row]];
        if (shape) stroke(shape.path, colors.ink, 2.4);
      }
    }
    for (const row of this.active(time)) {
      const shape = this.shapes[this.line[row]];
      if (!shape) continue;
      const color = colors.series[this.whole ? this.owner[this.item[row]] : 0];
      const share = this.whole ? 1 : this.kinds[this.kind[row]][2] / 4;
      context.globalAlpha = chosen && !chosen.has(row) ? 0.25 : 1;
      if (time < this.free(row)) stroke(shape.path, color, 2.6 * share * this.thick);
      if (this.whole && time < this.arrival(row) && !still.matches) {
        const share = (time - this.start(row)) / (this.arrival(row) - this.start(row));
        const place = Math.min(SAMPLES - 1, Math.floor(share * SAMPLES));
        const [a, b] = [shape.points[place], shape.points[place + 1]];
        const part = share * SAMPLES - place;
        context.fillStyle = color;
        context.beginPath();
        context.arc(a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part, Math.max(2, this.radius / 3), 0, 7);
        context.fill();
      }
    }
    context.globalAlpha = 1;
    const counts = this.arrivals(time);
    this.devices.forEach(([, x, y], device) => {
      if (x !== undefined) this.drawDevice(device, x, y, counts[device], focus, colors);
    });
  }
  drawDevice(device, x, y, count, focus, colors) {
    const { context } = this;
    const pointed = focus && focus.device === device;
    const radius = Math.max(1.5, this.radius);
    context.beginPath();
    if (device >= this.npus) context.rect(x - 7, y - 6, 14, 12);
    else context.arc(x, y, radius, 0, 7);
    context.fillStyle = device >= this.npus ? colors.soft : colors.paper;
    context.fill();
    const share = this.receives[device] ? count / this.receives[device] : 1;
    if (device < this.npus && !this.gone.has(device) && share > 0) {
      context.save();
      context.clip();
      context.globalAlpha = 0.45;
      context.fillStyle = colors.series[2];
      context.fillRect(x - radius, y + radius - 2 * radius * share, 2 * radius, 2 * radius * share);
      context.restore();
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
    }
    context.setLineDash(this.gone.has(device) ? [2, 2] : []);
    context.strokeStyle = this.gone.has(device) ? colors.bad : colors.ink;
    context.lineWidth = pointed ? 3 : 1.2;
    context.stroke();
    context.setLineDash([]);
    context.font = `${radius >= 12 ? 10.5 : 9}px system-ui, sans-serif`;
    if (device < this.npus && this.ranks[device] >= 0 && context.measureText(this.devices.length).width <= 1.9 * radius) {
      context.fillStyle = colors.ink;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.fillText(this.ranks[device], x, y);
    }
  }
}

const paint = () => {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const series = Array.from({ length: 8 }, (_, k) => color(`c${k}`));
  return { series, ...Object.fromEntries(["ink", "rule", "bad", "soft", "paper"].map((name) => [name, color(name)])) };
};

const animate = (box) => {
  const [canvas, second] = box.querySelectorAll("canvas");
  const main = new Lane(canvas, Number(box.dataset.clip));
  let other = null;
  const panel = box.closest('[role="tabpanel"]') || document.body;
  const [play, clock, output, said, path, beside, pace] = [
    ".play", ".clock", "output", ".said", ".critical", ".beside", ".pace",
  ].map((name) => box.querySelector(name));
  let [time, focus, pinned, frame, before, colors] = [0, null, false, 0, 0, paint()];
  const shown = () => (other ? [main, other] : [main]);
  /** Whether what one points at means something in a picture. */
  const concerns = (lane) =>
    lane === main || (focus?.critical ? lane.critical.length : lane.network === main.network && focus?.item === undefined);
  const end = () => Math.max(1, ...shown().map((lane) => lane.time));
  const bars = main.items ? [...panel.querySelectorAll("g[data-row]")] : [];
  for (const bar of bars) {
    bar.dataset.tip = main.tip(Number(bar.dataset.row));
    bar.setAttribute("aria-label", bar.dataset.tip);
    bar.setAttribute("role", "img");
  }
  // The time as a line over the pictures that have an axis of it.
  const needles = [...panel.querySelectorAll(".picture svg")].filter((svg) => svg.querySelector("[data-row]")).map((svg) => {
    const line = svg.querySelector(".axis");
    const axis = line.getAttribute("d").match(/[-\d.]+/g).map(Number);
    const needle = document.createElementNS("http://www.w3.org/2000/svg", "path");
    needle.setAttribute("class", "needle");
    svg.append(needle);
    return (now) => {
      const share = now / Number(line.dataset.until);
      needle.setAttribute("d", share > 1 ? "" : `M${axis[0] + (axis[2] - axis[0]) * share} 20V${axis[1]}`);
    };
  });
  const report = () => {
    const lines = shown().map((lane) => {
      const links = new Set(lane.active(time).map((row) => lane.line[row])).size;
      const all = lane.arrivals(time).reduce((sum, count) => sum + count, 0);
      const name = other ? `${lane.name}: ` : "";
      const arrived = lane.whole ? `; ${all} of ${plural(lane.count, "transfer")} have arrived` : "";
      return `${name}${plural(links, lane.whole ? "link" : "line")} in use${arrived}.`;
    });
    return `${timeText(time)}. ${lines.join(" ")}`;
  };
  const speak = () => {
    const words = focus && shown().filter(concerns).map((lane) => (other ? `${lane.name}: ` : "") + lane.words(focus, time));
    said.textContent = focus ? words.join(" ") : report();
  };
  const draw = () => {
    for (const lane of shown()) lane.draw(Math.min(time, lane.time), concerns(lane) ? focus : null, colors);
    for (const move of needles) move(time);
    clock.value = String(Math.round((1000 * time) / end()));
    output.textContent = timeText(time);
    clock.setAttribute("aria-valuetext", output.textContent);
    if (!frame) speak();
  };
  const choose = (next) => {
    focus = next;
    const rows = new Set(focus ? main.related(focus) : []);
    for (const bar of bars) {
      bar.classList.toggle("chosen", rows.has(Number(bar.dataset.row)));
      bar.classList.toggle("faded", focus !== null && !rows.has(Number(bar.dataset.row)));
    }
    path.setAttribute("aria-pressed", String(Boolean(focus && focus.critical)));
    draw();
    if (frame && focus) speak();
  };
  const pause = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
    draw();
  };
  const step = (now) => {
    const seconds = Number(pace.value);
    if (still.matches) {
      if (now - before >= 400) {
        const nexts = shown().map((lane) => (lane.after(time) < lane.count ? lane.start(lane.after(time)) : end()));
        time = Math.max(time + end() / (seconds * 5), Math.min(...nexts));
        before = now;
      }
    } else {
      time += (end() * (now - before)) / (1000 * seconds);
      before = now;
    }
    time = Math.min(time, end());
    if (time >= end()) { pause(); return; }
    frame = requestAnimationFrame(step);
    draw();
  };
  path.hidden = !main.critical.length;
  play.addEventListener("click", () => {
    if (frame) { pause(); return; }
    if (time >= end()) time = 0;
    before = performance.now();
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    frame = requestAnimationFrame(step);
  });
  clock.addEventListener("input", () => {
    time = (end() * Number(clock.value)) / 1000;
    if (frame) pause(); else draw();
  });
  path.addEventListener("click", () => {
    pinned = !(focus && focus.critical);
    choose(pinned ? { critical: true } : null);
  });
  if (beside) {
    beside.addEventListener("change", () => {
      other = beside.value ? new Lane(second, Number(beside.value)) : null;
      const stage = second.parentNode;
      stage.hidden = !other;
      if (other) stage.firstChild.textContent = other.name;
      second.setAttribute("aria-label", other ? other.name : "");
      time = Math.min(time, end());
      draw();
    });
    if (beside.value) beside.dispatchEvent(new Event("change"));
  }
  const pointed = (event) => {
    const area = main.canvas.getBoundingClientRect();
    const scale = 1040 / area.width;
    return main.at((event.clientX - area.left) * scale, (event.clientY - area.top) * scale);
  };
  main.canvas.addEventListener("pointermove", (event) => { if (!pinned) choose(pointed(event)); });
  main.canvas.addEventListener("pointerleave", () => { if (!pinned) choose(null); });
  main.canvas.addEventListener("click", (event) => {
    const next = pointed(event);
    pinned = next !== null;
    choose(next);
  });
  main.canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") { pinned = false; choose(null); return; }
    if (!(event.key in moves)) return;
    event.preventDefault();
    const drawn = main.devices.map((_, device) => device).filter((device) => main.devices[device].length > 1);
    const place = focus && focus.device !== undefined ? drawn.indexOf(focus.device) + moves[event.key] : 0;
    pinned = true;
    choose({ device: drawn[(place + drawn.length) % drawn.length] });
  });
  for (const bar of bars) {
    const item = { item: main.item[Number(bar.dataset.row)] };
    bar.addEventListener("pointerenter", () => { if (!pinned) choose(item); });
    bar.addEventListener("pointerleave", () => { if (!pinned) choose(null); });
    bar.addEventListener("click", () => {
      pinned = !(pinned && focus && focus.item === item.item);
      choose(pinned ? item : null);
    });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colors = paint(); draw(); });
  new ResizeObserver(draw).observe(box);
  draw();
};
for (const box of document.querySelectorAll(".moving")) animate(box);
