// A lane for each stream of each device class: predicted, and measured below it.
const LANE = 20, GAP = 3, HEAD = 24, AXIS = 26, LEFT = 150;

class Timeline {
  mount(main) {
    this.buildLanes();
    this.plane = new Plane(this, false);
    const m = program.measured;
    const legend = ['forward', 'backward', 'update', 'boxing', 'host'].map(
        (n) => el('span', {class: 'key'}, el('i', {class: n}), n));
    main.append(
        this.plane.toolbar(
            legend, el('span', {class: 'key'}, el('i', {class: 'wait'}), 'waits'),
            m ? el('label', {}, el('input', {
                     type: 'checkbox',
                     checked: state.all === '1',
                     onchange: (e) => go({all: e.target.checked ? '1' : null})
                   }),
                   ' every device') :
                null,
            el('span', {class: 'muted grow'},
               m ? `measured: step ${m.step} of ${m.steps.length}, of median length. ` :
                   `Predicted, the first step${
                       sharesCores() ? ', as if no device shared a core' : ''}. `,
               'Wheel zooms, drag moves, shift-wheel scrolls, double click shows all.')),
        this.plane.canvas);
  }
  unmount() {
    this.plane.close();
  }
  update() {
    this.buildLanes();
    this.plane.keep();
  }

  buildLanes() {
    const m = program.measured, all = state.all === '1' && m;
    this.lanes = [];
    let y = AXIS;
    if (m) y = this.addWorkers(m, y);
    for (const d of program.devices) {
      const stands = d.representative === d.id;
      if (!stands && !all) continue;
      this.lanes.push({
        y,
        header:
            `${stands ? deviceName(d.id) : 'device ' + d.id + ' (as ' + d.representative + ')'}   ${
                raw.devices[d.id]}`
      });
      y += HEAD;
      const order = {compute: 0, comm: 1, host: 2};
      for (const s of program.streams.filter((s) => s.device === d.id)
               .sort((a, b) => (order[a.kind] ?? 3) - (order[b.kind] ?? 3))) {
        if (stands && s.spans.length) {
          this.lanes.push({y, label: s.kind, spans: s.spans, waits: this.gaps(s), stream: s});
          y += LANE + GAP;
        }
        if (m && (m.streams[s.id].length || stands)) {
          this.lanes.push({
            y,
            label: s.kind + ', measured',
            spans: m.streams[s.id],
            measured: true,
            stream: s,
            waits: m.waits.filter((w) => w.stream === s.id)
          });
          y += LANE + GAP;
        }
      }
      y += 8;
    }
    this.bottom = y;
    this.end = Math.max(program.makespan, m ? m.makespan : 0, 1);
    this.begin = m ? Math.min(0, ...m.streams.map((s) => (s.length ? s[0].begin : 0))) : 0;
  }
  // A worker is a thread that plays devices, one instruction after another.
  addWorkers(m, y) {
    const workers =
        1 + Math.max(...m.streams.flat().map((s) => s.worker), ...m.waits.map((w) => w.worker));
    this.lanes.push({
      y,
      header:
          `${workers} worker${workers > 1 ? 's' : ''}   the threads that play the devices, measured`
    });
    y += HEAD;
    for (let n = 0; n < workers; n++) {
      const spans =
          m.streams.flat().filter((s) => s.worker === n).sort((a, b) => a.begin - b.begin);
      this.lanes.push({
        y,
        label: 'worker ' + n,
        spans,
        measured: true,
        waits: m.waits.filter((w) => w.worker === n)
      });
      y += LANE + GAP;
    }
    return y + 8;
  }
  // Streams other than compute stand still most of the time, and nobody minds.
  gaps(stream) {
    if (stream.kind !== 'compute') return [];
    const gaps = [];
    let end = 0;
    for (const span of stream.spans) {
      if (span.begin > end)
        gaps.push({
          begin: end,
          length: span.begin - end,
          actor: span.actor,
          what: span.wait ? span.wait.what : '',
          by: span.wait ? span.wait.by : -1
        });
      end = Math.max(end, span.begin + span.length);
    }
    return gaps;
  }

  place(plane, whole) {
    if (!plane.width) return false;
    const range = !whole && state.range ? state.range.split('-').map(Number) : null;
    const [from, to] = range && range[1] > range[0] ? range : [-this.end * 0.005, this.end * 1.01];
    plane.scale = (plane.width - LEFT) / (to - from);
    plane.x = from;
    plane.y = 0;
    if (!whole && state.focus && anySelected()) this.focus(plane);
  }
  focus(plane) {
    for (const lane of this.lanes) {
      const span = lane.spans && lane.spans.find((s) => isSelected(s.x));
      if (!span) continue;
      plane.scale = (plane.width - LEFT) / Math.max(span.length * 12, 1000);
      plane.x = span.begin + span.length / 2 - (plane.width - LEFT) / 2 / plane.scale;
      plane.y = Math.max(0, lane.y - 120);
      return;
    }
  }
  limits(plane) {
    const whole = (plane.width - LEFT) / (this.end * 1.015);
    return {
      least: whole * this.end / (this.end - this.begin),
      most: 2,
      left: LEFT,
      x0: this.begin - this.end * 0.005,
      x1: this.end * 1.01,
      y0: 0,
      y1: this.bottom + 10
    };
  }
  moved(plane) {
    clearTimeout(this.remember);
    this.remember = setTimeout(() => {
      const from = Math.round(plane.x),
            to = Math.round(plane.x + (plane.width - LEFT) / plane.scale);
      state.range = from + '-' + to;
      if (to - from >= this.end) delete state.range;
      history.replaceState(
          null, '',
          '#' +
              Object.entries(state)
                  .map(([k, v]) => encodeURIComponent(k) + '=' + encodeURIComponent(v))
                  .join('&'));
    }, 300);
  }

  draw(c, plane) {
    const {width, height, scale} = plane, X = (t) => LEFT + (t - plane.x) * scale;
    const from = plane.x, to = plane.x + (width - LEFT) / scale;
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    c.save();
    c.beginPath();
    c.rect(LEFT, AXIS, width - LEFT, height - AXIS);
    c.clip();
    c.strokeStyle = palette.line;
    c.lineWidth = 1;
    const ticks = timeTicks(from, to, scale, 90);
    for (const {at} of ticks) {
      const x = Math.round(X(at)) + 0.5;
      c.beginPath();
      c.moveTo(x, AXIS);
      c.lineTo(x, height);
      c.stroke();
    }
    for (const lane of this.lanes) {
      const y = lane.y - plane.y;
      if (y > height || y + LANE < AXIS || lane.header) continue;
      this.drawWaits(c, lane, y, from, to, X);
      this.drawSpans(c, lane, y, from, to, X);
    }
    if (!program.measured || program.step < this.end) this.markEnd(c, X(program.makespan), height);
    c.restore();
    this.drawLabels(c, plane);
    c.fillStyle = palette.page;
    c.fillRect(0, 0, width, AXIS);
    c.fillStyle = palette.muted;
    drawTickTexts(c, ticks, X, AXIS / 2, LEFT, width);
    c.strokeStyle = palette.line;
    c.beginPath();
    c.moveTo(0, AXIS - 0.5);
    c.lineTo(width, AXIS - 0.5);
    c.stroke();
  }
  // A dashed line where the predicted step ends.
  markEnd(c, x, height) {
    c.strokeStyle = palette.accent;
    c.setLineDash([4, 4]);
    c.beginPath();
    c.moveTo(x, AXIS);
    c.lineTo(x, height);
    c.stroke();
    c.setLineDash([]);
  }
  drawWaits(c, lane, y, from, to, X) {
    for (const w of lane.waits) {
      if (w.begin > to || w.begin + w.length < from) continue;
      const x0 = Math.max(X(w.begin), LEFT),
            x1 = Math.min(X(w.begin + w.length), LEFT + (to - from) * this.plane.scale);
      if (x1 - x0 < 0.7) continue;
      c.globalAlpha = 0.22;
      c.fillStyle = palette.wait;
      c.fillRect(x0, y + 3, x1 - x0, LANE - 6);
      c.globalAlpha = 1;
      c.fillRect(x0, y + LANE - 4, x1 - x0, 1.5);
      if (x1 - x0 > 60) {
        c.fillStyle = palette.text;
        fitText(
            c, w.what ? 'waits for ' + w.what + (w.by >= 0 ? ' from ' + actorLabel(w.by) : '') : '',
            x0 + 5, y + LANE / 2, x1 - x0 - 8);
      }
    }
  }
  drawSpans(c, lane, y, from, to, X) {
    const searching = !!state.q, selecting = anySelected();
    let last = -1e9, lastColor = null;
    for (let i = this.first(lane.spans, from); i < lane.spans.length; i++) {
      const s = lane.spans[i];
      if (s.begin > to) break;
      const x0 = X(s.begin), w = s.length * this.plane.scale;
      const fill = palette[categoryOf(s.x)], chosen = isSelected(s.x);
      if (w < 0.4 && x0 - last < 0.5 && fill === lastColor && !chosen) continue;
      last = x0;
      lastColor = fill;
      const dim = (searching && !matches(titleOf(s.x) + ' ' + s.x.op)) ||
          (!searching && selecting && !chosen);
      c.globalAlpha = dim ? 0.28 : lane.measured ? 0.82 : 1;
      c.fillStyle = fill;
      c.fillRect(x0, y + 1, Math.max(w - (w > 3 ? 0.6 : 0), 0.6), LANE - 2);
      c.globalAlpha = 1;
      if (chosen) {
        c.strokeStyle = palette.text;
        c.lineWidth = 1.5;
        c.strokeRect(x0 + 0.5, y + 0.5, Math.max(w, 2), LANE - 1);
      }
      if (w > 26) {
        c.fillStyle = dim ? palette.muted : palette.ink;
        const b = Math.max(x0, LEFT);
        fitText(c, s.x.scope || s.x.op, b + 4, y + LANE / 2 + 0.5, x0 + w - b - 8);
      }
    }
  }
  // The first span that may reach beyond a time; spans of a stream do not overlap.
  first(spans, time) {
    let low = 0, high = spans.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (spans[mid].begin + spans[mid].length < time)
        low = mid + 1;
      else
        high = mid;
    }
    return low;
  }
  drawLabels(c, plane) {
    c.fillStyle = palette.page;
    c.fillRect(0, AXIS, LEFT - 1, plane.height);
    c.strokeStyle = palette.line;
    c.beginPath();
    c.moveTo(LEFT - 0.5, AXIS);
    c.lineTo(LEFT - 0.5, plane.height);
    c.stroke();
    for (const lane of this.lanes) {
      const y = lane.y - plane.y;
      if (y > plane.height || y < AXIS - LANE) continue;
      if (lane.header) {
        c.fillStyle = palette.page;
        c.fillRect(0, y, plane.width, HEAD - 2);
        c.fillStyle = palette.text;
        c.font = '600 12px system-ui, sans-serif';
        c.fillText(lane.header, 10, y + HEAD / 2);
        c.font = '11px system-ui, sans-serif';
      } else {
        c.fillStyle = lane.measured ? palette.muted : palette.text;
        c.fillText(lane.label, 18, y + LANE / 2);
      }
    }
  }
  hit(px, py) {
    const p = this.plane;
    if (px < LEFT || py < AXIS) return null;
    const t = p.x + (px - LEFT) / p.scale,
          lane = this.lanes.find((l) => !l.header && py + p.y >= l.y && py + p.y < l.y + LANE);
    if (!lane) return null;
    const slack = 1.5 / p.scale;
    for (let i = Math.max(0, this.first(lane.spans, t - slack));
         i < lane.spans.length && lane.spans[i].begin <= t + slack; i++) {
      const s = lane.spans[i];
      if (t < s.begin - slack || t > s.begin + s.length + slack) continue;
      return {click: () => select(s.x), lines: this.spanLines(s, lane)};
    }
    const w = lane.waits.find((w) => t >= w.begin && t <= w.begin + w.length);
    if (!w) return null;
    return {
      lines: [
        `waits ${formatTime(w.length)}` + (w.what ? ' for ' + w.what : ''),
        w.by >= 0 ? 'owed by ' + actorLabel(w.by) : null,
        w.actor >= 0 ? 'then runs ' + actorLabel(w.actor) : null,
        w.worker != null ? 'worker ' + w.worker : null
      ],
      click: w.by >= 0 ? () => go({tab: 'waits'}) : null
    };
  }
  spanLines(s, lane) {
    const x = s.x, m = x.measured;
    return [
      titleOf(x),
      `${x.op}  ${formatTime(s.length)}` +
          (lane.measured ? ` (predicted ${formatTime(x.time)})` :
               m ? ` (measured ${formatTime(m.mean)} on average, ${formatTime(m.least)} to ${
                       formatTime(m.most)})` :
                   ''),
      x.flops && s.length ?
          `${(x.flops / s.length).toFixed(1)} GFLOP/s, ${formatCount(x.flops)} FLOP` :
          null,
      x.bytes ? `${formatBytes(x.bytes)} read and written` : null,
      x.wire ? `${formatBytes(x.wire)} from other devices` : null,
      x.boxing >= 0 ?
          `boxing ${program.boxings[x.boxing].recipe}, for ${program.boxings[x.boxing].reader}` :
          null,
      `actor ${actorLabel(s.actor)}` +
          (program.actors[s.actor].firings > 1 ? `, micro-batch ${s.firing}` : '') +
          (lane.measured ? `, worker ${s.worker}` : ''),
      s.wait ? `came last: ${s.wait.what} from ${actorLabel(s.wait.by)}` : null
    ];
  }
}
