// The first tab answers what people ask first, and links to the rest.
function panel(title, question, ...children) {
  return el(
      'section', {class: 'panel'}, el('h3', {}, title),
      question ? el('p', {class: 'muted'}, question) : null, ...children);
}
function barRow(label, value, most, text, options = {}) {
  return el(
      'tr', {class: options.onclick ? 'link' : '', onclick: options.onclick},
      el('td', {class: 'label', title: options.title || null}, label),
      el('td', {class: 'bars'}, el('div', {class: 'bar'}, el('i', {
                                     style: {
                                       width: Math.max(0.4, (100 * value) / (most || 1)) + '%',
                                       background: options.color || 'var(--accent)'
                                     }
                                   })),
         options.second != null ?
             el('div', {class: 'bar'}, el('i', {
                  style: {
                    width: Math.max(0.4, (100 * options.second) / (most || 1)) + '%',
                    background: options.color || 'var(--accent)',
                    opacity: 0.45
                  }
                })) :
             null),
      el('td', {class: 'number'}, text));
}
function card(label, value, note) {
  return el(
      'div', {class: 'card'}, el('div', {class: 'muted'}, label),
      el('div', {class: 'value'}, value), el('div', {class: 'muted'}, note || ''));
}
// Of a device that stands for others.
const deviceName = (d) => {
  const others = program.members(d).slice(1), many = others.length > 4;
  const list = many ? [...others.slice(0, 3), '\u2026', others[others.length - 1]] : others;
  return 'device ' + d + (list.length ? ` (and ${list.join(', ')})` : '');
};

// The step time of a calibrated machine knows that devices share its cores; their timelines do not.
const sharesCores = () => program.step > 1.01 * program.makespan;

// Nanoseconds a step by category on one device's streams; idle is what is left of its compute
// stream.
function splitOf(streams, makespan) {
  const sum = {forward: 0, backward: 0, update: 0, boxing: 0, host: 0};
  let compute = 0;
  for (const {kind, spans} of streams) {
    for (const span of spans) {
      sum[categoryOf(span.x)] += span.length;
      if (kind === 'compute') compute += span.length;
    }
  }
  sum.idle = Math.max(0, makespan - compute);
  return sum;
}

function whereItGoes() {
  const rows = [];
  const strip = (label, streams, makespan, most) => {
    const compute = splitOf(streams.filter((s) => s.kind === 'compute'), makespan);
    const comm = splitOf(streams.filter((s) => s.kind !== 'compute'), makespan);
    const parts = [
      ['forward', compute.forward], ['backward', compute.backward], ['update', compute.update],
      ['boxing', compute.boxing], ['idle', compute.idle]
    ];
    rows.push(
        el('tr', {}, el('td', {class: 'label short'}, label),
           el('td', {class: 'bars'},
              el('div', {class: 'stack', style: {width: (100 * makespan) / most + '%'}},
                 parts.map(
                     ([name, value]) => value > 0 ? el('i', {
                       class: name,
                       title: `${name} ${formatTime(value)}, ${percent(value, makespan)}`,
                       style: {width: (100 * value) / makespan + '%'}
                     }) :
                                                    null))),
           el('td', {class: 'number'}, formatTime(makespan)),
           el('td', {class: 'number muted'}, percent(compute.idle, makespan) + ' idle'),
           el('td', {class: 'number muted'}, 'moves ' + formatTime(comm.boxing))));
  };
  const m = program.measured, most = Math.max(program.makespan, m ? m.makespan : 0);
  for (const d of program.representatives) {
    strip(
        deviceName(d.id), program.streams.filter((s) => s.device === d.id), program.makespan, most);
    if (m)
      strip(
          'measured',
          program.streams.filter((s) => s.device === d.id)
              .map((s) => ({kind: s.kind, spans: m.streams[s.id]})),
          m.makespan, most);
  }
  const legend = ['forward', 'backward', 'update', 'boxing', 'idle'].map(
      (name) =>
          el('span', {class: 'key'}, el('i', {class: name}),
             name === 'boxing' ? 'boxing over micro-batches' : name));
  return panel(
      'What the step spends its time on',
      'Each device\'s compute stream' +
          (m ? `, predicted and, below it, measured (step ${
                   m.step}); measured idling includes what its worker does for other devices` :
               ' in one step, predicted'),
      el('div', {class: 'legend'}, legend), el('table', {class: 'rows'}, rows));
}

function byOp() {
  const sums = new Map();
  for (const o of program.ops) {
    if (o.source || !(o.time || o.measured)) continue;
    const e = sums.get(o.op) || {op: o.op, time: 0, measured: 0, count: 0};
    e.time += o.time;
    e.measured += o.measured;
    e.count++;
    sums.set(o.op, e);
  }
  const m = program.measured,
        rows = [...sums.values()]
                   .sort((a, b) => (m ? b.measured - a.measured : b.time - a.time))
                   .slice(0, 12);
  const most = Math.max(...rows.map((r) => Math.max(r.time, r.measured)), 1);
  return panel(
      'Which ops', 'Summed over the model, a step' + (m ? '; the paler bar is measured' : ''),
      el('table', {class: 'rows'},
         rows.map(
             (r) => barRow(
                 `${r.op} \u00d7 ${r.count}`, r.time, most,
                 formatTime(r.time) + (m ? ' / ' + formatTime(r.measured) : ''),
                 {second: m ? r.measured : null, onclick: () => go({tab: 'ops', q: r.op})}))));
}

function byBlock() {
  const sums = new Map();
  for (const o of program.ops) {
    if (o.source) continue;
    const e = sums.get(o.block) || {forward: 0, backward: 0, update: 0, stage: o.stage};
    e[o.phase] += program.measured ? o.measured : o.time;
    sums.set(o.block, e);
  }
  const rows = [...sums.entries()], total = (e) => e.forward + e.backward + e.update,
        most = Math.max(...rows.map(([, e]) => total(e)), 1);
  return panel(
      'Which part of the model',
      'By the first word of the scope, ' + (program.measured ? 'measured' : 'predicted') +
          ', a step',
      el('div', {class: 'scroll'},
         el('table', {class: 'rows'},
            rows.map(
                ([block, e]) =>
                    el('tr', {class: 'link', onclick: () => go({tab: 'graph', q: block + '/'})},
                       el('td', {class: 'label'}, block),
                       el('td', {class: 'bars'},
                          el('div', {class: 'stack', style: {width: (100 * total(e)) / most + '%'}},
                             PHASES.map((p) => el('i', {
                                          class: p,
                                          title: p + ' ' + formatTime(e[p]),
                                          style: {width: (100 * e[p]) / (total(e) || 1) + '%'}
                                        })))),
                       el('td', {class: 'number'}, formatTime(total(e))))))));
}

function actorLabel(a) {
  return a < 0 ? 'the session' : program.actors[a].name;
}

// The same wait on several devices is one line, with the longest of them.
function mergeWaits(owed) {
  const merged = new Map(), plain = (name) => name.replace(/^d\d+\./, '');
  for (const w of owed) {
    const who = plain(actorLabel(w.actor)), by = plain(actorLabel(w.by)),
          key = [who, w.what, by].join('\n');
    const entry =
        merged.get(key) || {who, by, what: w.what, total: 0, count: 0, devices: new Set()};
    if (w.actor >= 0) entry.devices.add(program.actors[w.actor].device);
    if (w.total > entry.total) entry.total = w.total, entry.count = w.count;
    merged.set(key, entry);
  }
  return [...merged.values()].sort((a, b) => b.total - a.total);
}

function whoWaits() {
  const m = program.measured, all = mergeWaits(m ? m.owed : predictedOwed(program)),
        rows = all.slice(0, 8);
  const most = rows.length ? rows[0].total : 1, steps = m ? m.steps.length : 1;
  const label = (w) =>
      [el('b', {}, w.who), ' waits for ', w.what,
       w.by === w.what || w.by.includes('(' + w.what + ')') ? '' : [' from ', el('b', {}, w.by)],
       el('div', {class: 'muted'},
          (w.devices.size > 1 ? 'on devices ' : 'on device ') +
              [...w.devices].sort((a, b) => a - b).join(', '))];
  return panel(
      'Who waits for whom',
      m ? 'Measured: a step, on the device that waits longest' :
          'Predicted: what came last when a compute stream stood still',
      rows.length ? el('table', {class: 'rows'},
                       rows.map(
                           (w) => barRow(
                               label(w), w.total, most, formatTime(w.total / steps),
                               {color: 'var(--wait)', onclick: () => go({tab: 'waits'})}))) :
                    el('p', {}, 'Nothing waits.'));
}

function costliestBoxings() {
  const rows = [...program.boxings].sort((a, b) => b.time - a.time || b.wire - a.wire).slice(0, 8),
        most = rows.length ? rows[0].time : 1;
  return panel(
      'Which boxings cost most',
      'And the lines of the model that caused them: one makes the tensor, one reads it otherwise',
      rows.length ?
          el('table', {class: 'rows'},
             rows.map(
                 (b) => barRow(
                     [
                       el('b', {}, b.recipe), ' of ', b.tensor,
                       el('div', {class: 'muted'}, 'for ', b.reader)
                     ],
                     b.time, most,
                     [formatTime(b.time), el('div', {class: 'muted'}, formatBytes(b.wire))],
                     {color: 'var(--boxing)', onclick: () => go({box: b.id, op: null})}))) :
          el('p', {}, 'None: everything is where it is read.'));
}

// The ten tensors, each with its bytes in all its blocks.
function peakOf(device) {
  return device.peak.map((blocks) => {
    const first = device.memory[blocks[0]], n = blocks.length;
    return {
      ...first,
      bytes: n * first.bytes,
      blocks,
      text: (n > 1 ? `${n} \u00d7 ` : '') + formatBytes(first.bytes)
    };
  });
}

function memoryPeak() {
  const device = [...program.representatives].sort(
      (a, b) => b.variables + b.packed - a.variables - a.packed)[0];
  const sums = {};
  for (const b of device.memory)
    if (b.kind <= 1) sums[b.kind] = (sums[b.kind] || 0) + b.bytes;
  const rows = peakOf(device), most = Math.max(...rows.map((b) => b.bytes), 1);
  const all = device.variables + device.packed;
  return panel(
      'What makes the memory peak',
      `${deviceName(device.id)}: ${formatBytes(all)}, of them ${
          formatBytes(sums[0] || 0)} parameters, ${formatBytes(sums[1] || 0)} optimizer state, ${
          formatBytes(device.packed)} for this program; at its peak the largest are`,
      el('table', {class: 'rows'},
         rows.map(
             (b) => barRow(
                 b.name, b.bytes, most, [b.text, el('div', {class: 'muted'}, MEMORY_KINDS[b.kind])],
                 {
                   color: `var(--m${b.kind})`,
                   onclick: () => go({tab: 'memory', device: device.id, bytes: b.id})
                 }))));
}

function choicesWithCost() {
  const rows = program.ops.filter((o) => o.alternatives.length > 1)
                   .map((o) => {
                     const others = o.alternatives.filter((a) => a.signature !== o.signature)
                                        .sort((a, b) => a.cost - b.cost);
                     return {o, next: others[0], count: others.length};
                   })
                   .filter((r) => r.next)
                   .sort((a, b) => b.next.cost - b.o.cost - (a.next.cost - a.o.cost));
  return panel(
      'Where there was a choice',
      `${rows.length} of ${
          program.ops.filter((o) => o.signature)
              .length} ops had more than one legal signature; here those where the next best costs most`,
      rows.length ? el('table', {class: 'rows'},
                       rows.slice(0, 8).map(
                           ({o, next}) => barRow(
                               o.name, o.cost, Math.max(next.cost, 1),
                               `${formatTime(o.cost)}, next ${formatTime(next.cost)}`, {
                                 second: next.cost,
                                 color: 'var(--accent)',
                                 onclick: () => go({op: o.name, box: null})
                               }))) :
                    el('p', {}, 'Annotations and rules left one signature for each op.'));
}

const overview = {
  mount(main) {
    const m = program.measured, wire = program.boxings.reduce((s, b) => s + b.wire, 0);
    const trained = program.name === raw.programs[0].name;  // others may split nothing and mean to
    const largest = Math.max(...program.devices.map((d) => d.variables + d.packed));
    main.append(el(
        'div', {class: 'overview'},
        program.warnings.map((w) => el('p', {class: trained ? 'warning' : 'muted'}, '\u26a0 ' + w)),
        el('div', {class: 'cards'},
           card(
               'predicted step', formatTime(program.step),
               sharesCores() ? `${formatTime(program.makespan)} if no device shared a core` :
                               `the first alone ${formatTime(program.makespan)}`),
           m ? card(
                   'measured step', formatTime(m.median),
                   `median of ${m.steps.length}; ${
                       (m.median / program.step).toFixed(2)} \u00d7 predicted`) :
               card('measured step', '\u2013', 'a run with --trace fills this in'),
           card(
               'moved between devices', formatBytes(wire),
               `${formatCount(program.boxings.length)} boxings a step`),
           card('largest device', formatBytes(largest), 'variables and this program'),
           card(
               'devices', formatCount(raw.devices.length),
               program.classes === raw.devices.length ? 'no two do the same work' :
                   program.classes === 1              ? 'all do the same work; one is shown' :
                                           `${program.classes} classes; one of each is shown`),
           card(
               'plan', `${formatCount(program.ops.filter((o) => !o.source).length)} ops`,
               `${formatCount(program.actors.length)} actors, ${
                   formatCount(program.registers)} registers, ${
                   formatCount(program.reuseEdges)} reuse edges`)),
        el('div', {class: 'panels'}, whereItGoes(), whoWaits(), costliestBoxings(), memoryPeak(),
           byOp(), byBlock(), choicesWithCost())));
  },
};
