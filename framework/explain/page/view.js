// What all tabs share: the page's state in the address, formatting, tooltips, a canvas to move in.
const $ = (id) => document.getElementById(id);

// Every string goes in as text; there is no innerHTML on this page.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on'))
      node.addEventListener(key.slice(2), value);
    else if (key === 'style')
      Object.assign(node.style, value);
    else if (value !== false && value != null)
      node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity)
                  .filter((c) => c != null && c !== false)
                  .map((c) => (c instanceof Node ? c : String(c))));
  return node;
}

function formatTime(ns) {
  const a = Math.abs(ns);
  if (a >= 1e9) return (ns / 1e9).toFixed(2) + ' s';
  if (a >= 1e6) return (ns / 1e6).toFixed(a >= 1e8 ? 0 : a >= 1e7 ? 1 : 2) + ' ms';
  if (a >= 1e3) return (ns / 1e3).toFixed(a >= 1e5 ? 0 : 1) + ' \u00b5s';
  return Math.round(ns) + ' ns';
}
function formatBytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let u = 0;
  while (n >= 1024 && u < 4) n /= 1024, u++;
  return (u === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)) + ' ' + units[u];
}
const formatCount = (n) => n.toLocaleString('en-US');
const percent = (part, whole) =>
    (whole > 0 ? ((100 * part) / whole).toFixed(part / whole < 0.0995 ? 1 : 0) + ' %' : '');
// An axis that splits nothing says nothing.
const shortLayout = (text) =>
    text.replace(/\b\w+:B(?=\s|$)/g, '').replace(/\s+/g, ' ').trim() || 'B';

// The state, as the address holds it: #program=train&tab=memory&op=h0/attn/q
const state = {};
function readState() {
  for (const key of Object.keys(state)) delete state[key];
  for (const part of location.hash.slice(1).split('&')) {
    if (!part) continue;
    const at = part.indexOf('=');
    const decode = (text) => {
      try {
        return decodeURIComponent(text);
      } catch (e) {
        return text;
      }
    };
    state[decode(at < 0 ? part : part.slice(0, at))] = at < 0 ? '1' : decode(part.slice(at + 1));
  }
  if (state.dark) state.theme = 'dark';
  if (state.light) state.theme = 'light';
}
function go(change) {
  for (const [key, value] of Object.entries(change)) {
    if (value == null || value === '')
      delete state[key];
    else
      state[key] = String(value);
  }
  const quote = (text) => encodeURIComponent(text).replace(/%2F/g, '/').replace(/%3A/g, ':');
  const hash = '#' + Object.entries(state).map(([k, v]) => quote(k) + '=' + quote(v)).join('&');
  history.replaceState(null, '', hash);
  render();
}

const color = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
let palette = {};
function readPalette() {
  palette = {};
  for (const name
           of ['text', 'muted', 'faint', 'line', 'panel', 'page', 'accent', 'forward', 'backward',
               'update', 'boxing', 'host', 'wait', 'ink', 'm0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6',
               'm7'])
    palette[name] = color(name);
}
// What kind of work an instruction is.
const categoryOf = (x) => (x.boxing >= 0 ? 'boxing' : x.node < 0 ? 'host' : x.phase);

const tip = {
  show(event, lines) {
    const box = $('tip');
    box.replaceChildren(
        ...lines.filter(Boolean).map((line, i) => el('div', {class: i ? '' : 'first'}, line)));
    box.hidden = false;
    const w = box.offsetWidth, h = box.offsetHeight;
    box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 8)) + 'px';
    box.style.top = (event.clientY + h + 22 > innerHeight ? Math.max(4, event.clientY - h - 10) :
                                                            event.clientY + 16) +
        'px';
  },
  hide() {
    $('tip').hidden = true;
  },
};

const matches = (text) => !state.q || text.toLowerCase().includes(state.q.toLowerCase());

// A canvas with its own coordinates: x and, if `both`, y zoom; otherwise y is in pixels. The owner
// puts `toolbar(...)` and `canvas` on the page and calls close() when they leave it; it gives
// draw(context, plane), hit(x, y) in pixels for hover and click, limits(plane), and
// place(plane, whole), which looks at everything or at what is chosen.
class Plane {
  constructor(owner, both) {
    this.owner = owner;
    this.both = both;
    this.canvas = el('canvas', {tabindex: 0, class: 'fill'});
    this.x = 0;
    this.y = 0;
    this.scale = 1;  // left, top, pixels a unit
    this.listen();
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(this.canvas);
  }
  toolbar(...items) {
    return el(
        'div', {class: 'toolbar'}, items,
        el('button', {onclick: () => this.showAll()}, 'show all'));
  }
  close() {
    this.resize.disconnect();
  }
  showAll() {
    this.placed = this.owner.place(this, true) !== false;
    this.keep();
  }
  measure() {
    const ratio = devicePixelRatio || 1, c = this.canvas;
    this.width = c.clientWidth;
    this.height = c.clientHeight;
    if (!this.width || !this.height) return;
    c.width = Math.round(this.width * ratio);
    c.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    if (!this.placed) this.placed = this.owner.place(this) !== false;
    this.paint();
  }
  paint() {
    const context = this.canvas.getContext('2d');
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.owner.draw(context, this);
  }
  draw() {
    if (!this.width || this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.paint();
    });
  }
  zoom(factor, px, py) {
    const limit = this.owner.limits(this);
    const scale = Math.min(limit.most, Math.max(limit.least, this.scale * factor));
    this.x += (px - limit.left) / this.scale - (px - limit.left) / scale;
    if (this.both) this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.keep();
  }
  keep() {
    const limit = this.owner.limits(this);
    const clamp = (v, low, high) => (high < low ? low : Math.min(high, Math.max(low, v)));
    this.x = clamp(this.x, limit.x0, limit.x1 - (this.width - limit.left) / this.scale);
    this.y = clamp(this.y, limit.y0, limit.y1 - this.height / (this.both ? this.scale : 1));
    if (this.owner.moved) this.owner.moved(this);
    this.draw();
  }
  listen() {
    const c = this.canvas;
    let drag = null;
    c.addEventListener('wheel', (e) => {
      e.preventDefault();
      const box = c.getBoundingClientRect();
      if (e.shiftKey && !this.both) {
        this.y += e.deltaY || e.deltaX;
        this.keep();
        return;
      }
      this.zoom(Math.exp(-e.deltaY * 0.0016), e.clientX - box.left, e.clientY - box.top);
    }, {passive: false});
    c.addEventListener('pointerdown', (e) => {
      drag = {x: e.clientX, y: e.clientY, moved: false};
      c.setPointerCapture(e.pointerId);
    });
    c.addEventListener('pointermove', (e) => {
      const box = c.getBoundingClientRect();
      if (drag) {
        const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
        if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
        drag.moved = true;
        drag.x = e.clientX;
        drag.y = e.clientY;
        this.x -= dx / this.scale;
        this.y -= dy / (this.both ? this.scale : 1);
        tip.hide();
        this.keep();
        return;
      }
      const hit = this.owner.hit(e.clientX - box.left, e.clientY - box.top);
      c.style.cursor = hit && hit.click ? 'pointer' : 'grab';
      if (hit)
        tip.show(e, hit.lines);
      else
        tip.hide();
    });
    c.addEventListener('pointerup', (e) => {
      const box = c.getBoundingClientRect(), moved = drag && drag.moved;
      drag = null;
      if (moved) return;
      const hit = this.owner.hit(e.clientX - box.left, e.clientY - box.top);
      if (hit && hit.click) hit.click();
    });
    c.addEventListener('pointerleave', () => tip.hide());
    c.addEventListener('dblclick', () => this.showAll());
    c.addEventListener('keydown', (e) => {
      const w = this.width / 2, h = this.height / 2, step = 60;
      if (e.key === '+' || e.key === '=')
        this.zoom(1.4, w, h);
      else if (e.key === '-')
        this.zoom(1 / 1.4, w, h);
      else if (e.key === '0')
        this.showAll();
      else if (e.key === 'ArrowLeft') {
        this.x -= step / this.scale;
        this.keep();
      } else if (e.key === 'ArrowRight') {
        this.x += step / this.scale;
        this.keep();
      } else if (e.key === 'ArrowUp') {
        this.y -= step / (this.both ? this.scale : 1);
        this.keep();
      } else if (e.key === 'ArrowDown') {
        this.y += step / (this.both ? this.scale : 1);
        this.keep();
      } else
        return;
      e.preventDefault();
    });
  }
}

// Text cut to a width, drawn only if something of it remains.
function fitText(context, text, x, y, width) {
  if (width < 14) return;
  if (context.measureText(text).width <= width) {
    context.fillText(text, x, y);
    return;
  }
  const average = context.measureText('abcdefgh').width / 8;
  const room = Math.floor(width / average) - 1;
  if (room >= 2) context.fillText(text.slice(0, room) + '\u2026', x, y);
}

// Ticks of 1, 2 or 5 times a power of ten, at most one in `spacing` pixels, with as many digits as
// tell one from the next.
function timeTicks(from, to, scale, spacing) {
  let step = Math.pow(10, Math.ceil(Math.log10(spacing / scale)));
  if ((step / 5) * scale >= spacing)
    step /= 5;
  else if ((step / 2) * scale >= spacing)
    step /= 2;
  const [unit, name] =
      [[1e9, 's'], [1e6, 'ms'], [1e3, '\u00b5s']].find(([u]) => to >= u) || [1, 'ns'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)), ticks = [];
  for (let n = Math.ceil(from / step); n * step <= to; n++)
    ticks.push(
        {at: n * step, text: n === 0 ? '0' : `${((n * step) / unit).toFixed(digits)} ${name}`});
  return ticks;
}
function drawTickTexts(context, ticks, X, y, left, right) {
  context.textAlign = 'center';
  for (const {at, text} of ticks)
    if (X(at) > left - 1 && X(at) + context.measureText(text).width / 2 < right)
      context.fillText(text, X(at), y);
  context.textAlign = 'left';
}

// The op or the boxing that an instruction is, for a click on it.
function select(x) {
  if (x.node >= 0)
    go({op: program.ops[x.node].name, box: null, block: null});
  else if (x.boxing >= 0)
    go({box: x.boxing, op: null, block: null});
}
const isSelected = (x) => (x.node >= 0 && state.op === program.ops[x.node].name) ||
    (x.boxing >= 0 && state.box === String(x.boxing));
const anySelected = () => state.op != null || state.box != null;
const titleOf = (x) => (x.scope || x.op);
