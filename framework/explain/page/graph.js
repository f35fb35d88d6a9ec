// The graph: a row of columns for each stage, a column for each part of the model (first word of
// the scope), in it a card for each phase, in it the ops in layers.
const NODE_W = 168, NODE_H = 38, NODE_X = 16, NODE_Y = 22, CARD_PAD = 14, CARD_HEAD = 26,
      MOST_IN_ROW = 4;

class GraphView {
  mount(main) {
    this.layout();
    this.plane = new Plane(this, true);
    main.append(
        this.plane.toolbar(
            PHASES.map((n) => el('span', {class: 'key'}, el('i', {class: n}), n)),
            el('span', {class: 'key'}, el('i', {class: 'boxing'}), 'boxing on the way'),
            el('span', {class: 'muted grow'},
               'The fuller an op\'s bar, the more of the step it takes. Wheel zooms, drag moves, double click shows all; a click on a title goes there.')),
        this.plane.canvas);
  }
  unmount() {
    this.plane.close();
  }
  update() {
    if (state.q !== this.query) {
      this.query = state.q;
      this.focusMatches();
    }
    this.plane.draw();
  }

  layout() {
    this.query = state.q;
    this.nodes = program.ops.filter((o) => !o.source).map((o) => ({op: o, x: 0, y: 0}));
    this.nodeOf = new Map(this.nodes.map((n) => [n.op.id, n]));
    const columns = new Map();
    for (const node of this.nodes) {
      const key = node.op.stage + '\n' + node.op.block;
      if (!columns.has(key))
        columns.set(key, {stage: node.op.stage, block: node.op.block, cards: {}});
      const cards = columns.get(key).cards;
      const card = cards[node.op.phase] ||
          (cards[node.op.phase] =
               {phase: node.op.phase, block: node.op.block, stage: node.op.stage, nodes: []});
      card.nodes.push(node);
      node.card = card;
    }
    for (const column of columns.values()) {
      for (const card of Object.values(column.cards)) this.layoutCard(card);
      column.w = Math.max(...Object.values(column.cards).map((card) => card.w));
    }
    this.placeColumns([...columns.values()]);
    this.findEdges();
  }
  // Layers by the longest way inside the card; within one, by where the inputs are.
  layoutCard(card) {
    const rank = new Map(), layers = [];
    for (const node of card.nodes) {
      let r = 0;
      for (const t of node.op.inputs) {
        const from = this.nodeOf.get(program.tensors[t].producer.id);
        if (from && from.card === card && rank.has(from)) r = Math.max(r, rank.get(from) + 1);
      }
      rank.set(node, r);
      (layers[r] || (layers[r] = [])).push(node);
    }
    const rows = [];
    for (const layer of layers)
      for (let i = 0; i < layer.length; i += MOST_IN_ROW)
        rows.push(layer.slice(i, i + MOST_IN_ROW));
    const widest = Math.max(2, ...rows.map((r) => r.length));  // room for a title from afar
    card.w = widest * (NODE_W + NODE_X) - NODE_X + 2 * CARD_PAD;
    card.h = Math.max(2, rows.length) * (NODE_H + NODE_Y) - NODE_Y + CARD_HEAD + 2 * CARD_PAD;
    rows.forEach((row, r) => {
      const wish = (node) => {
        let sum = 0, count = 0;
        for (const t of node.op.inputs) {
          const from = this.nodeOf.get(program.tensors[t].producer.id);
          if (from && from.card === card) sum += from.x, count++;
        }
        return count ? sum / count : card.w / 2;
      };
      row.sort((a, b) => wish(a) - wish(b));
      const left = (card.w - row.length * (NODE_W + NODE_X) + NODE_X) / 2;
      row.forEach((node, i) => {
        node.x = left + i * (NODE_W + NODE_X);
        node.y = CARD_HEAD + CARD_PAD + r * (NODE_H + NODE_Y);
      });
    });
  }
  // Each stage has rows of its own, with its phases above or beside each other; a row is cut where
  // that makes the whole nearly twice as wide as high.
  placeColumns(columns) {
    const stages = [...new Set(columns.map((c) => c.stage))].sort((a, b) => a - b);
    let best = null;
    for (const beside of [false, true]) {
      for (let cuts = 1; cuts <= 6; cuts++) {
        const rows = stages.flatMap((stage) => {
          const own = columns.filter((c) => c.stage === stage), each = Math.ceil(own.length / cuts),
                cut = [];
          for (let i = 0; i < own.length; i += each)
            cut.push({stage, columns: own.slice(i, i + each)});
          return cut;
        });
        const size = this.placeRows(rows, beside), off = Math.abs(Math.log(size.w / size.h / 1.8));
        if (!best || off < best.off - 1e-9) best = {off, rows, beside};
      }
    }
    this.rows = best.rows;
    for (const row of this.rows) row.title = this.rowTitle(row);
    const size = this.placeRows(best.rows, best.beside);
    this.w = size.w;
    this.h = size.h;
    this.cards = columns.flatMap((c) => Object.values(c.cards));
    for (const card of this.cards)
      for (const node of card.nodes) node.x += card.x, node.y += card.y;
    this.hottest = Math.max(...this.nodes.map((n) => n.op.measured || n.op.time), 1);
    for (const card of this.cards)
      card.time = card.nodes.reduce((s, n) => s + (n.op.measured || n.op.time), 0);
  }
  placeRows(rows, beside) {
    let y = 0, w = 0;
    for (const row of rows) {
      row.y = y;
      let top = y + 104, x = 20, most = 0;
      for (const phase of PHASES) {
        if (!beside) x = 20;
        const cards = row.columns.filter((c) => c.cards[phase]);
        for (const column of beside ? cards : row.columns) {
          const card = column.cards[phase], wide = beside ? card.w : column.w;
          if (card) {
            card.x = x + (wide - card.w) / 2;
            card.y = top;
            most = Math.max(most, card.h + 24);
          }
          x += wide + 40;
        }
        w = Math.max(w, x);
        if (beside)
          x += 30;
        else
          top += most, most = 0;
      }
      row.h = top + most - y + 14;
      y += row.h + 40;
    }
    return {w, h: y};
  }
  findEdges() {
    this.edges = [];
    for (const to of this.nodes) {
      for (const t of new Set(to.op.inputs)) {
        const tensor = program.tensors[t], from = this.nodeOf.get(tensor.producer.id);
        if (!from) continue;
        const box = to.op.boxings.find((b) => b.asker === to.op && b.tensor === tensor.name);
        const inner = from.card === to.card;
        this.edges.push({
          from,
          to,
          box,
          inner,
          always: inner || (from.op.phase === to.op.phase && to.op.phase !== 'update')
        });
      }
    }
  }

  place(plane, whole) {
    if (!plane.width) return false;
    const op = state.op != null && !whole && program.opByName.get(state.op),
          node = op && this.nodeOf.get(op.id);
    if (node)
      this.show(plane, node.x - 500, node.y - 260, 1000 + NODE_W, 520 + NODE_H);
    else if (state.q && !whole && this.focusMatches(plane))
      return;
    else
      this.show(plane, 0, 0, this.w, this.h);
  }
  show(plane, x, y, w, h) {
    plane.scale = Math.min(plane.width / w, plane.height / h, 1.6);
    plane.x = x + w / 2 - plane.width / 2 / plane.scale;
    plane.y = y + h / 2 - plane.height / 2 / plane.scale;
  }
  focusMatches(plane = this.plane) {
    if (!state.q || !plane || !plane.width) return false;
    const found = this.nodes.filter((n) => matches(n.op.name + ' ' + n.op.op));
    if (!found.length || found.length > this.nodes.length / 2) return false;
    const x0 = Math.min(...found.map((n) => n.x)), y0 = Math.min(...found.map((n) => n.y));
    const x1 = Math.max(...found.map((n) => n.x)) + NODE_W,
          y1 = Math.max(...found.map((n) => n.y)) + NODE_H;
    this.show(plane, x0 - 60, y0 - 80, x1 - x0 + 120, y1 - y0 + 140);
    return true;
  }
  limits(plane) {
    const whole = Math.min(plane.width / this.w, plane.height / this.h) * 0.9,
          w = plane.width / plane.scale / 2, h = plane.height / plane.scale / 2;
    return {least: whole, most: 3, left: 0, x0: -w, x1: this.w + w, y0: -h, y1: this.h + h};
  }

  draw(c, plane) {
    const s = plane.scale,
          inView = (x, y, w, h) => x + w > plane.x && y + h > plane.y &&
        x < plane.x + plane.width / s && y < plane.y + plane.height / s;
    c.save();
    c.scale(s, s);
    c.translate(-plane.x, -plane.y);
    c.textBaseline = 'middle';
    for (const row of this.rows)
      if (inView(0, row.y, this.w, row.h)) this.drawRow(c, row, s);
    // From afar what joins cards lies below them, so that it shows only between.
    const far = s < 0.34;
    if (far)
      for (const e of this.edges)
        if (e.always && !e.inner) this.drawEdge(c, e, s, 0.35, inView);
    for (const card of this.cards)
      if (inView(card.x, card.y, card.w, card.h)) this.drawCard(c, card, s);
    const chosen = state.op != null ? program.opByName.get(state.op) : null;
    const box = state.box != null ? program.boxings[Number(state.box)] : null;
    const lit = (e) => e.from.op === chosen || e.to.op === chosen || (box && e.box === box);
    const dimmed = !!(chosen || box);
    if (!far)
      for (const e of this.edges)
        if (e.always && !lit(e)) this.drawEdge(c, e, s, dimmed ? 0.2 : 0.55, inView);
    for (const node of this.nodes)
      if (inView(node.x, node.y, NODE_W, NODE_H)) this.drawNode(c, node, s, chosen, box);
    for (const e of this.edges)
      if (dimmed && lit(e)) this.drawEdge(c, e, s, 1, () => true);
    c.restore();
    if (far) this.drawTitles(c, plane, inView);
  }
  rowTitle(row) {
    const devices =
        raw.stage_of.map((stage, d) => (stage === row.stage ? d : -1)).filter((d) => d >= 0);
    const list =
        devices.length > 8 ? devices.slice(0, 8).join(', ') + '\u2026' : devices.join(', ');
    return `stage ${row.stage} on device${devices.length > 1 ? 's' : ''} ${list}`;
  }
  drawRow(c, row, s) {
    c.fillStyle = palette.faint;
    c.fillRect(0, row.y, this.w, row.h);
    if (s < 0.34) return;
    c.fillStyle = palette.text;
    c.font = '600 17px system-ui, sans-serif';
    c.fillText(row.title, 20, row.y + 76);
  }
  drawCard(c, card, s) {
    c.fillStyle = palette.panel;
    c.fillRect(card.x, card.y, card.w, card.h);
    c.strokeStyle = palette.line;
    c.lineWidth = 1;
    c.strokeRect(card.x, card.y, card.w, card.h);
    c.fillStyle = palette[card.phase];
    c.fillRect(card.x, card.y, card.w, 4);
    if (s < 0.34) return;
    c.fillStyle = palette.text;
    c.font = '600 13px system-ui, sans-serif';
    c.fillText(card.block, card.x + CARD_PAD, card.y + 19);
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = palette.muted;
    c.textAlign = 'right';
    c.fillText(`${card.phase}, ${formatTime(card.time)}`, card.x + card.w - CARD_PAD, card.y + 19);
    c.textAlign = 'left';
  }
  // Far away rows and cards have one title each, of the size of the screen's text. A card's goes
  // down where others are in its way.
  drawTitles(c, plane, inView) {
    const taken = [], bold = '600 12px system-ui, sans-serif';
    const free = (a) => taken.every(
        (b) => a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y);
    const paper = (box, color) => {
      taken.push(box);
      c.globalAlpha = 0.86;
      c.fillStyle = color;
      c.fillRect(box.x, box.y, box.w, box.h);
      c.globalAlpha = 1;
      c.fillStyle = palette.text;
      c.font = bold;
    };
    c.textBaseline = 'middle';
    c.font = bold;
    for (const row of this.rows) {
      const x = Math.max(4, -plane.x * plane.scale + 4), y = (row.y - plane.y) * plane.scale + 10;
      paper({x: x - 2, y: y - 9, w: c.measureText(row.title).width + 10, h: 18}, palette.faint);
      c.fillText(row.title, x + 3, y);
    }
    c.textAlign = 'center';
    for (const card of this.cards) {
      if (!inView(card.x, card.y, card.w, card.h)) continue;
      const w = card.w * plane.scale, h = card.h * plane.scale, timed = h > 34 && w > 60,
            x = (card.x + card.w / 2 - plane.x) * plane.scale,
            y = (card.y + card.h / 2 - plane.y) * plane.scale;
      if (w < 16 || (h < 9 && w < 60)) continue;
      c.font = bold;
      const room = Math.max(w, 96), wide = Math.min(c.measureText(card.block).width + 10, room);
      const box = {x: x - wide / 2, y: y - 9, w: wide, h: timed ? 32 : 18};
      while (!free(box) && box.y < y + 30) box.y += 3;
      if (!free(box)) continue;
      paper(box, palette.panel);
      fitCentered(c, card.block, x, box.y + 9, room - 4);
      if (timed) {
        c.font = '11px system-ui, sans-serif';
        c.fillStyle = palette.muted;
        c.fillText(formatTime(card.time), x, box.y + 24);
      }
    }
    c.textAlign = 'left';
  }
  drawEdge(c, e, s, alpha, inView) {
    const x0 = e.from.x + NODE_W / 2, y0 = e.from.y + NODE_H, x1 = e.to.x + NODE_W / 2, y1 = e.to.y;
    if (!inView(
            Math.min(x0, x1) - 60, Math.min(y0, y1) - 60, Math.abs(x1 - x0) + 120,
            Math.abs(y1 - y0) + 120))
      return;
    c.globalAlpha = e.box ? Math.min(1, alpha + 0.35) : alpha;
    c.strokeStyle = e.box ? palette.boxing : palette.muted;
    c.lineWidth = (e.box ? 2.2 : 1.1) * Math.max(1, 0.5 / s);
    const dy = Math.max(18, Math.min(Math.abs(y1 - y0) / 2, 120)),
          skip = e.inner && y1 - y0 > 2 * (NODE_H + NODE_Y);
    const side = skip && Math.abs(x1 - x0) < NODE_W ? Math.max(NODE_W * 0.75, 0) : 0;
    c.beginPath();
    c.moveTo(x0, y0);
    if (side) {
      c.bezierCurveTo(x0 + side, y0 + dy, x1 + side, y1 - dy, x1, y1);
    } else {
      c.bezierCurveTo(x0, y0 + dy, x1, y1 - dy, x1, y1);
    }
    c.stroke();
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(x1 - 4, y1 - 7);
    c.lineTo(x1 + 4, y1 - 7);
    c.closePath();
    c.fillStyle = c.strokeStyle;
    c.fill();
    if (e.box && s > 0.6) {
      const text = `${e.box.recipe} ${formatBytes(e.box.wire)}`, x = (x0 + x1) / 2 + side * 0.75,
            y = (y0 + y1) / 2;
      c.font = '10px system-ui, sans-serif';
      c.textAlign = 'center';
      const w = c.measureText(text).width + 8;
      c.fillStyle = palette.panel;
      c.globalAlpha = 0.9;
      c.fillRect(x - w / 2, y - 7, w, 14);
      c.fillStyle = palette.boxing;
      c.globalAlpha = 1;
      c.fillText(text, x, y + 0.5);
      c.textAlign = 'left';
    }
    c.globalAlpha = 1;
  }
  drawNode(c, node, s, chosen, box) {
    const o = node.op, time = o.measured || o.time, found = state.q && matches(o.name + ' ' + o.op);
    const dim = state.q && !found;
    c.globalAlpha = dim ? 0.25 : 1;
    if (s < 0.34) {
      c.fillStyle = palette[o.phase];
      c.globalAlpha = (dim ? 0.15 : 0.3) + 0.7 * Math.sqrt(time / this.hottest) * (dim ? 0.3 : 1);
      c.fillRect(node.x, node.y, NODE_W, NODE_H);
      c.globalAlpha = 1;
    } else {
      c.fillStyle = palette.page;
      c.fillRect(node.x, node.y, NODE_W, NODE_H);
      c.fillStyle = palette[o.phase];
      c.globalAlpha *= 0.3;
      c.fillRect(node.x, node.y, (NODE_W * time) / this.hottest, NODE_H);
      c.globalAlpha = dim ? 0.25 : 1;
      c.fillRect(node.x, node.y, 3, NODE_H);
      c.strokeStyle = palette.line;
      c.lineWidth = 1;
      c.strokeRect(node.x, node.y, NODE_W, NODE_H);
      c.fillStyle = palette.text;
      c.font = '12px system-ui, sans-serif';
      fitText(c, shortName(o), node.x + 9, node.y + 12, NODE_W - 14);
      c.fillStyle = palette.muted;
      c.font = '10px system-ui, sans-serif';
      const right = formatTime(time), w = c.measureText(right).width;
      c.fillText(right, node.x + NODE_W - w - 6, node.y + 27);
      if (o.outputs.length)
        fitText(
            c, shortLayout(program.tensors[o.outputs[0]].layout.replace(/^micro:\S+/, '')),
            node.x + 9, node.y + 27, NODE_W - w - 24);
    }
    if (o === chosen || found || (box && (box.maker === o || box.asker === o))) {
      c.strokeStyle = o === chosen ? palette.text : box ? palette.boxing : palette.accent;
      c.lineWidth = Math.max(2, 1.6 / s);
      c.strokeRect(node.x - 1, node.y - 1, NODE_W + 2, NODE_H + 2);
    }
    c.globalAlpha = 1;
  }
  hit(px, py) {
    const p = this.plane, x = p.x + px / p.scale, y = p.y + py / p.scale;
    const node =
        this.nodes.find((n) => x >= n.x && x <= n.x + NODE_W && y >= n.y && y <= n.y + NODE_H);
    const card = this.cards.find((k) => x >= k.x && x <= k.x + k.w && y >= k.y && y <= k.y + k.h);
    if (node && p.scale > 0.2) {
      const o = node.op,
            variables =
                o.inputs.map((t) => program.tensors[t]).filter((t) => t.producer.op === 'variable');
      return {
        click: () => go({op: o.name, box: null}),
        lines: [
          o.name, `${o.op}, ${o.phase}, stage ${o.stage}`, shortLayout(o.signature),
          `${formatTime(o.time)} predicted` +
              (o.measured ? `, ${formatTime(o.measured)} measured` : ''),
          ...o.outputs.map(
              (t) => `makes ${program.tensors[t].type} ${shortLayout(program.tensors[t].layout)}`),
          ...variables.map((t) => `variable ${t.name} ${shortLayout(t.layout)}`),
          ...o.boxings.filter((b) => b.asker === o)
              .map((b) => `asks for ${b.recipe} of ${b.tensor}, ${formatBytes(b.wire)}`),
          o.alternatives.length > 1 ? `${o.alternatives.length - 1} other signatures were legal` :
                                      null
        ]
      };
    }
    if (!card) return null;
    return {
      lines: [
        `${card.block}, ${card.phase}`, `${card.nodes.length} ops, ${formatTime(card.time)} a step`
      ],
      click: p.scale < 0.34 || y < card.y + CARD_HEAD ?
          () => {
            this.show(p, card.x - 30, card.y - 30, card.w + 60, card.h + 60);
            p.keep();
          } :
          null
    };
  }
}
function fitCentered(c, text, x, y, width) {
  let cut = text;
  while (cut.length > 1 && c.measureText(cut).width > width) cut = cut.slice(0, -1);
  c.fillText(cut, x, y);
}
function shortName(op) {
  const name = op.name.startsWith(op.block + '/') ? op.name.slice(op.block.length + 1) : op.name;
  return op.phase === 'backward' ? name.replace('backward/', '') :
      op.phase === 'update'      ? name.replace('update/', '') :
                                   name;
}
