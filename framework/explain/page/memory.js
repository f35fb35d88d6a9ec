// A device's bytes over the step: offset by time, as packed, with the line of what is alive above.
const CURVE = 90;

class MemoryMap {
  mount(main) {
    const devices = program.representatives;
    this.device = program.devices[Number(state.device)] ||
        [...devices].sort((a, b) => b.packed - a.packed)[0];
    this.device = program.devices[this.device.representative];
    this.plane = new Plane(this, false);
    this.prepare();
    main.append(
        this.plane.toolbar(
            el('label', {}, 'device ',
               el('select', {onchange: (e) => go({device: e.target.value, bytes: null})},
                  devices.map(
                      (d) =>
                          el('option', {value: d.id, selected: d === this.device},
                             `${deviceName(d.id)}: ${formatBytes(d.variables)} variables + ${
                                 formatBytes(d.packed)}`)))),
            el('label', {}, el('input', {
                 type: 'checkbox',
                 checked: state.variables === '1',
                 onchange: (e) => go({variables: e.target.checked ? '1' : null})
               }),
               ' variables to scale'),
            MEMORY_KINDS.map(
                (name, kind) => this.device.memory.some((b) => b.kind === kind) ?
                    el('span', {class: 'key'}, el('i', {style: {background: `var(--m${kind})`}}),
                       name) :
                    null),
            el('span', {class: 'grow'})),
        el('div', {class: 'split'}, this.plane.canvas, el('div', {class: 'list'}, this.list())));
  }
  unmount() {
    this.plane.close();
  }
  update() {
    this.device =
        program.devices[(program.devices[Number(state.device)] || this.device).representative];
    this.prepare();
    this.plane.draw();
  }
  key() {
    return [state.device, state.variables, state.bytes].join();
  }

  prepare() {
    const d = this.device;
    this.base = d.variables;
    this.blocks = d.memory.filter((b) => b.kind > 1);
    this.variables = d.memory.filter((b) => b.kind <= 1);
    this.end = program.makespan || 1;
    const change = [];
    for (const b of this.blocks) change.push([b.begin, b.bytes], [b.end, -b.bytes]);
    change.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    this.curve = [];
    let live = 0;
    for (const [t, n] of change) this.curve.push([t, live += n]);
    this.top = new Set(d.peak.flat());
  }
  list() {
    const d = this.device, rows = peakOf(d), sum = rows.reduce((s, b) => s + b.bytes, 0);
    const where = (a, i) => {
      const x = a >= 0 && program.actors[program.actors[a].representative].script[i];
      return x ? titleOf(x) : 'the step before';
    };
    const variables = [...this.variables].sort((a, b) => b.bytes - a.bytes);
    return [
      el('h3', {}, 'At the peak'),
      el('p', {class: 'muted'},
         `${formatBytes(d.live)} are alive at ${formatTime(d.peakTime)}, packed into ${
             formatBytes(d.packed)} (${(d.packed / (d.live || 1)).toFixed(3)}). These ${
             rows.length} are ${percent(sum, d.live)} of it:`),
      el('ol', {class: 'blocks'},
         rows.map(
             (b) =>
                 el('li', {
                   class: state.bytes === String(b.id) ? 'chosen' : '',
                   onclick: () => go({bytes: b.id, op: this.opOf(b)})
                 },
                    el('i', {style: {background: `var(--m${b.kind})`}}),
                    el('span', {class: 'number'}, b.text), el('b', {}, b.name),
                    el('div', {class: 'muted'},
                       `${MEMORY_KINDS[b.kind]}, made by ${where(b.maker, b.madeAt)}, freed by ${
                           where(b.last, b.freedAt)}`)))),
      el('h3', {}, 'Variables'),
      el('p', {class: 'muted'},
         `${formatBytes(d.variables)} in ${this.variables.length}, always there; the largest:`),
      el('ol', {class: 'blocks'},
         variables.slice(0, 6).map(
             (b) =>
                 el('li', {onclick: () => go({op: this.opOf(b)})},
                    el('i', {style: {background: `var(--m${b.kind})`}}),
                    el('span', {class: 'number'}, formatBytes(b.bytes)), el('b', {}, b.name))))
    ];
  }
  opOf(b) {
    const op = program.opByName.get(b.name.replace(/:\d+$/, ''));
    return op ? op.name : null;
  }

  place(plane) {
    if (!plane.width) return false;
    plane.scale = (plane.width - 70) / (this.end * 1.01);
    plane.x = 0;
    plane.y = 0;
  }
  limits(plane) {
    return {
      least: (plane.width - 70) / (this.end * 1.01),
      most: 2,
      left: 70,
      x0: 0,
      x1: this.end * 1.01,
      y0: 0,
      y1: 0
    };
  }
  // Bytes to pixels: variables are a thin band below unless they are wanted to scale.
  scaleY(plane) {
    const top = CURVE + 26, bottom = plane.height - 26, whole = state.variables === '1';
    const band = whole ?
        (bottom - top) * this.device.variables / (this.device.variables + this.device.packed || 1) :
        Math.min(34, bottom - top);
    const each = (bottom - top - band - 6) / (this.device.packed || 1);
    return {
      top,
      bottom,
      band,
      each,
      Y: (offset) => bottom - band - 6 - (offset - this.base) * each,
      V: (offset) => bottom - (offset * band) / (this.device.variables || 1)
    };
  }
  draw(c, plane) {
    const {width, scale} = plane, X = (t) => 70 + (t - plane.x) * scale, s = this.scaleY(plane);
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    c.save();
    c.beginPath();
    c.rect(70, 0, width - 70, plane.height - 24);
    c.clip();
    this.drawCurve(c, plane, X);
    c.fillStyle = palette.faint;
    c.fillRect(70, s.Y(this.base + this.device.packed), width, this.device.packed * s.each);
    for (const b of this.blocks)
      this.drawBlock(c, plane, b, X(b.begin), X(b.end), s.Y(b.offset + b.bytes), b.bytes * s.each);
    for (const b of this.variables)
      this.drawBlock(
          c, plane, b, 70, width, s.V(b.offset + b.bytes),
          (b.bytes * s.band) / (this.device.variables || 1), true);
    const x = Math.round(X(this.device.peakTime)) + 0.5;
    c.strokeStyle = palette.wait;
    c.setLineDash([5, 4]);
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, s.bottom);
    c.stroke();
    c.setLineDash([]);
    c.restore();
    c.fillStyle = palette.muted;
    c.textAlign = 'right';
    for (const share of [0, 0.25, 0.5, 0.75, 1])
      c.fillText(
          formatBytes(this.device.packed * share), 64,
          s.Y(this.base + this.device.packed * share) +
              (share === 1     ? 4 :
                   share === 0 ? -4 :
                                 0));
    c.fillText('variables', 64, s.bottom - s.band / 2);
    c.fillText('alive', 64, CURVE / 2 + 6);
    drawTickTexts(
        c, timeTicks(plane.x, plane.x + (width - 70) / scale, scale, 90), X, plane.height - 11, 70,
        width);
  }
  drawCurve(c, plane, X) {
    const Y = (n) => CURVE + 12 - (n / (this.device.live || 1)) * (CURVE - 8);
    c.beginPath();
    c.moveTo(X(0), Y(0));
    let before = 0;
    for (const [t, n] of this.curve) {
      c.lineTo(X(t), Y(before));
      c.lineTo(X(t), Y(n));
      before = n;
    }
    c.lineTo(X(this.end), Y(before));
    c.lineTo(X(this.end), Y(0));
    c.closePath();
    c.globalAlpha = 0.18;
    c.fillStyle = palette.accent;
    c.fill();
    c.globalAlpha = 1;
    c.strokeStyle = palette.accent;
    c.stroke();
    const x = X(this.device.peakTime), right = x > plane.width - 220;
    c.fillStyle = palette.wait;
    c.textAlign = right ? 'right' : 'left';
    c.fillText(
        `peak ${formatBytes(this.device.live)} at ${formatTime(this.device.peakTime)}`,
        x + (right ? -7 : 7), 9);
    c.textAlign = 'left';
  }
  drawBlock(c, plane, b, x0, x1, y, h, variable) {
    if (x1 < 70 || x0 > plane.width || h <= 0) return;
    const w = Math.max(x1 - x0, 0.6), chosen = state.bytes === String(b.id),
          named = state.op != null && this.opOf(b) === state.op;
    const dim = (state.q && !matches(b.name)) || (!state.q && state.bytes != null && !chosen);
    c.globalAlpha = dim ? 0.25 : 1;
    c.fillStyle = palette['m' + b.kind];
    c.fillRect(x0, y, w - (w > 4 ? 0.5 : 0), Math.max(h - (h > 4 ? 0.5 : 0), 0.5));
    if (!variable && this.top.has(b.id) && w > 3 && h > 3) {
      c.strokeStyle = palette.text;
      c.lineWidth = 1.2;
      c.strokeRect(x0 + 0.6, y + 0.6, w - 1.7, h - 1.7);
    }
    if (chosen || named) {
      c.strokeStyle = palette.wait;
      c.lineWidth = 2;
      c.strokeRect(x0, y, Math.max(w, 3), Math.max(h, 3));
    }
    c.lineWidth = 1;
    if (h > 12 && w > 30) {
      const left = Math.max(x0, 70);
      c.fillStyle = palette.ink;
      fitText(c, b.name, left + 4, y + h / 2 + 0.5, Math.min(x1, plane.width) - left - 8);
    }
    c.globalAlpha = 1;
  }
  hit(px, py) {
    const p = this.plane, s = this.scaleY(p), t = p.x + (px - 70) / p.scale;
    if (px < 70) return null;
    if (py < CURVE + 14) {
      let live = 0;
      for (const [at, n] of this.curve) {
        if (at > t) break;
        live = n;
      }
      return {lines: [formatBytes(live) + ' alive', 'at ' + formatTime(t)]};
    }
    let found = null;
    const slack = 1 / p.scale;
    if (py >= s.bottom - s.band) {
      const offset = ((s.bottom - py) * this.device.variables) / s.band;
      found = this.variables.find((b) => offset >= b.offset && offset < b.offset + b.bytes);
    } else {
      const offset = this.base + (s.bottom - s.band - 6 - py) / s.each;
      found = this.blocks.find(
          (b) => offset >= b.offset && offset < b.offset + b.bytes && t >= b.begin - slack &&
              t <= b.end + slack);
    }
    if (!found) return null;
    const name = (a, i) => titleOf(
        program.actors[program.actors[a].representative].script[i] ||
        {op: 'another class of device'});
    return {
      click: () => go({bytes: found.kind > 1 ? found.id : null, op: this.opOf(found), box: null}),
      lines: [
        found.name,
        `${MEMORY_KINDS[found.kind]}, ${formatBytes(found.bytes)} at ${formatBytes(found.offset)}`,
        found.kind > 1 ? `alive ${formatTime(found.begin)} to ${formatTime(found.end)}` : null,
        found.maker >= 0 ? 'made by ' + name(found.maker, found.madeAt) : null,
        found.last >= 0 ? 'freed by ' + name(found.last, found.freedAt) : null,
        this.top.has(found.id) ? 'one of the ten that make the peak' : null
      ]
    };
  }
}
