// Tables of any length: only the rows in view exist.
const ROW = 27;

class Table {
  // columns: { name, of(row) for sorting, cell(row), number, width }
  constructor(columns, rows, options) {
    Object.assign(this, {columns, rows, options});
  }
  mount(main) {
    this.head = el('tr', {});
    this.body = el('tbody', {});
    this.above = el('tr', {class: 'space'});
    this.below = el('tr', {class: 'space'});
    this.count = el('span', {class: 'muted'});
    this.scroller =
        el('div', {class: 'table', onscroll: () => this.fill()},
           el('table', {},
              el('colgroup', {},
                 this.columns.map((c) => el('col', {style: {width: c.width || 'auto'}}))),
              el('thead', {}, this.head), this.body));
    main.append(
        el('div', {class: 'toolbar'}, this.options.tools || null, this.count,
           el('span', {class: 'muted grow'}, this.options.note || '')),
        this.scroller);
    this.update();
    this.resize = new ResizeObserver(() => this.fill());
    this.resize.observe(this.scroller);
  }
  unmount() {
    this.resize.disconnect();
  }
  update() {
    const sort = state.sort || this.options.sort, descending = sort.startsWith('-'),
          column = this.columns.find((c) => c.name === sort.replace('-', '')) || this.columns[0];
    const sign = descending ? -1 : 1;
    this.shown = this.rows.filter((r) => matches(this.options.text(r))).sort((a, b) => {
      const x = column.of(a), y = column.of(b);
      return sign *
          (typeof x === 'number' ? x - y :
                                   String(x).localeCompare(String(y), 'en', {numeric: true}));
    });
    this.head.replaceChildren(...this.columns.map(
        (c) =>
            el('th', {
              class: c.number ? 'number' : '',
              title: c.title || 'sort by ' + c.name,
              onclick: () =>
                  go({sort: (column === c ? !descending : c.number) ? '-' + c.name : c.name})
            },
               c.name, column === c ? (descending ? ' \u25be' : ' \u25b4') : '')));
    this.count.textContent = this.shown.length === this.rows.length ?
        `${formatCount(this.rows.length)} rows` :
        `${formatCount(this.shown.length)} of ${formatCount(this.rows.length)} rows`;
    if (this.scroller.scrollTop > this.shown.length * ROW) this.scroller.scrollTop = 0;
    this.fill();
  }
  fill() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 10),
          last =
              Math.min(this.shown.length, first + Math.ceil(this.scroller.clientHeight / ROW) + 20);
    this.above.style.height = first * ROW + 'px';
    this.below.style.height = (this.shown.length - last) * ROW + 'px';
    this.body.replaceChildren(
        this.above,
        ...this.shown.slice(first, last)
            .map(
                (r) =>
                    el('tr', {
                      class: this.options.selected && this.options.selected(r) ? 'chosen' : '',
                      onclick: () => this.options.click && this.options.click(r)
                    },
                       this.columns.map((c) => {
                         const content = c.cell ? c.cell(r) : c.of(r);
                         return el(
                             'td', {
                               class: c.number ? 'number' : '',
                               title: typeof content === 'string' ? content : null
                             },
                             content);
                       }))),
        this.below);
  }
}

function cellBar(value, most, text, name) {
  return el(
      'span', {class: 'cellbar'},
      el('i', {style: {width: (100 * value) / (most || 1) + '%', background: `var(--${name})`}}),
      el('span', {}, text));
}

function opsTable() {
  const rows = program.ops.filter((o) => !o.source), m = program.measured,
        most = Math.max(...rows.map((o) => Math.max(o.time, o.measured)), 1);
  const next = (o) => o.alternatives.filter((a) => a.signature !== o.signature)
                          .reduce((least, a) => Math.min(least, a.cost), Infinity);
  return new Table(
      [
        {name: 'op', of: (o) => o.name, width: '26%'},
        {name: 'kind', of: (o) => o.op, width: '13%'},
        {
          name: 'phase',
          of: (o) => PHASES.indexOf(o.phase),
          cell: (o) => phaseBadge(o.phase),
          width: '80px'
        },
        {name: 'stage', of: (o) => o.stage, number: true, width: '52px'},
        {name: 'signature', of: (o) => shortSignature(o.signature)},
        {
          name: 'predicted',
          of: (o) => o.time,
          cell: (o) => cellBar(o.time, most, formatTime(o.time), o.phase),
          number: true,
          width: '104px'
        },
        ...(m ?
                [
                  {
                    name: 'measured',
                    of: (o) => o.measured,
                    cell: (o) => cellBar(o.measured, most, formatTime(o.measured), o.phase),
                    number: true,
                    width: '104px'
                  },
                  {
                    name: 'ratio',
                    of: (o) => (o.time ? o.measured / o.time : 0),
                    cell: (o) => (o.time ? (o.measured / o.time).toFixed(2) : ''),
                    number: true,
                    width: '60px',
                    title: 'measured by predicted'
                  }
                ] :
                []),
        {
          name: 'cost',
          of: (o) => o.cost,
          cell: (o) => formatTime(o.cost),
          number: true,
          width: '80px',
          title: 'what selection compared: compute, and boxing of its inputs'
        },
        {
          name: 'next best',
          of: (o) => (next(o) === Infinity ? -1 : next(o)),
          cell: (o) => (next(o) === Infinity ? '' : formatTime(next(o))),
          number: true,
          width: '86px',
          title: 'the cheapest other legal signature'
        },
      ],
      rows, {
        sort: m ? '-measured' : '-predicted',
        text: (o) => o.name + ' ' + o.op + ' ' + o.phase,
        click: (o) => go({op: o.name, box: null}),
        selected: (o) => state.op === o.name,
        note: 'A step, on the device that has most of it. Click a row for the alternatives and why.'
      });
}
// Axes along which nothing is split are left out.
function shortSignature(text) {
  const kept = text.split(' ').filter((axis) => /[SP]/.test(axis.slice(axis.indexOf(':') + 1)));
  return kept.join('  ') || 'B';
}

// The axes on which two layouts differ.
function changeOf(from, to) {
  const before = new Map(from.split(' ').map((axis) => axis.split(':')));
  const changes = to.split(' ')
                      .map((axis) => axis.split(':'))
                      .filter(([name, sbp]) => before.get(name) !== sbp)
                      .map(([name, sbp]) => `${name}: ${before.get(name)} \u2192 ${sbp}`);
  return changes.join(', ') || 'another stage';
}

function boxingsTable() {
  const rows = program.boxings, m = program.measured,
        most = Math.max(...rows.map((b) => Math.max(b.time, b.measured)), 1);
  return new Table(
      [
        {name: 'tensor', of: (b) => b.tensor, width: '23%'},
        {name: 'recipe', of: (b) => b.recipe, width: '15%'},
        {
          name: 'asked by',
          of: (b) => b.reader,
          width: '23%',
          title: 'the line of the model that reads it otherwise'
        },
        {
          name: 'phase',
          of: (b) => PHASES.indexOf(b.phase),
          cell: (b) => phaseBadge(b.phase),
          width: '80px'
        },
        {name: 'change', of: (b) => changeOf(b.from, b.to)},
        {
          name: 'bytes',
          of: (b) => b.wire,
          cell: (b) => formatBytes(b.wire),
          number: true,
          width: '84px'
        },
        {name: 'times', of: (b) => b.firings, number: true, width: '56px'},
        {
          name: 'predicted',
          of: (b) => b.time,
          cell: (b) => cellBar(b.time, most, formatTime(b.time), 'boxing'),
          number: true,
          width: '104px'
        },
        ...(m ? [{
          name: 'measured',
          of: (b) => b.measured,
          cell: (b) => cellBar(b.measured, most, formatTime(b.measured), 'boxing'),
          number: true,
          width: '104px'
        }] :
                []),
      ],
      rows, {
        sort: '-predicted',
        text: (b) => b.tensor + ' ' + b.recipe + ' ' + b.reader,
        click: (b) => go({box: b.id, op: null}),
        selected: (b) => state.box === String(b.id),
        note: 'Bytes a step between devices, over all of them; time a step on the busiest device.'
      });
}

function waitsTable() {
  const m = program.measured, kind = m && state.waits !== 'predicted' ? 'measured' : 'predicted';
  const rows = kind === 'measured' ? m.owed : predictedOwed(program),
        most = Math.max(...rows.map((w) => w.total), 1);
  const causes = (w) => {
    const a = w.by >= 0 && program.actors[program.actors[w.by].representative];
    return a && a.script.length === 1 ? titleOf(a.script[0]) : '';
  };
  return new Table(
      [
        {name: 'who waits', of: (w) => actorLabel(w.actor), width: '15%'},
        {name: 'for what', of: (w) => w.what, width: '22%', title: 'the register, or the bytes'},
        {name: 'who owes it', of: (w) => actorLabel(w.by), width: '25%'},
        {name: 'line', of: causes},
        {
          name: 'time',
          of: (w) => w.total,
          cell: (w) => cellBar(w.total, most, formatTime(w.total), 'wait'),
          number: true,
          width: '110px'
        },
        {name: 'times', of: (w) => w.count, number: true, width: '70px'},
        {
          name: 'each',
          of: (w) => w.total / w.count,
          cell: (w) => formatTime(w.total / w.count),
          number: true,
          width: '90px'
        },
      ],
      rows, {
        sort: '-time',
        text: (w) => actorLabel(w.actor) + ' ' + w.what + ' ' + actorLabel(w.by),
        tools: m ? el('label', {}, 'waits ',
                      el('select', {onchange: (e) => go({waits: e.target.value})},
                         ['measured', 'predicted'].map(
                             (k) => el('option', {value: k, selected: k === kind}, k)))) :
                   null,
        note: kind === 'measured' ?
            'Of workers, summed over all steps; waits for the session\'s next step are left out.' :
            'Gaps of streams in the predicted step, each blamed on what came last.'
      });
}

function variablesTable() {
  const rows = raw.variables.map(
      (v) => ({name: str(v[0]), type: str(v[1]), layout: str(v[2]), stage: v[3], state: v[4]}));
  return new Table(
      [
        {name: 'variable', of: (v) => v.name, width: '34%'},
        {name: 'type', of: (v) => v.type},
        {name: 'layout', of: (v) => shortLayout(v.layout)},
        {name: 'stage', of: (v) => v.stage, number: true, width: '60px'},
        {name: 'kind', of: (v) => (v.state ? 'optimizer state' : 'parameter')},
      ],
      rows, {
        sort: 'variable',
        text: (v) => v.name + ' ' + v.type,
        click: (v) => program.opByName.has(v.name) && go({op: v.name, box: null}),
        selected: (v) => state.op === v.name,
        note: 'How each is stored.'
      });
}
