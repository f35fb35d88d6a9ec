// The panel at the right: all that is known of the op or boxing that is selected.
function opLink(op, text) {
  return op ? el('a', {
    href: '#',
    title: op.name,
    onclick: (e) => {
      e.preventDefault();
      go({op: op.name, box: null});
    }
  },
                 text || op.name) :
              el('span', {}, text || '');
}
function boxLink(b) {
  return el(
      'a', {
        href: '#',
        onclick: (e) => {
          e.preventDefault();
          go({box: b.id, op: null});
        }
      },
      b.recipe);
}
function facts(rows) {
  return el(
      'dl', {},
      rows.filter((r) => r && r[1] != null && r[1] !== '')
          .map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)]));
}
function phaseBadge(phase) {
  return el('span', {class: 'badge ' + phase}, phase);
}

// One line an axis: a long signature is unreadable in one.
function signatureLines(text) {
  return el('div', {class: 'signature'}, text.split(' ').map((axis) => {
    const at = axis.indexOf(':');
    return el('div', {}, at < 0 ? axis : [
      el('b', {}, axis.slice(0, at)), ' ',
      axis.slice(at + 1).replace(/->/g, ' \u2192 ').replace(/,/g, ', ')
    ]);
  }));
}

function alternativesOf(op) {
  if (op.alternatives.length < 2)
    return el(
        'p', {class: 'muted'},
        'Nothing else was legal: annotations, rules and what arrives left one signature.');
  const sorted = [...op.alternatives].sort((a, b) => a.cost - b.cost);
  const most = sorted[sorted.length - 1].cost || 1;
  return el(
      'div', {class: 'alternatives'},
      sorted.map(
          (a) =>
              el('div', {class: a.signature === op.signature ? 'chosen' : ''},
                 el('div', {class: 'bar'}, el('i', {style: {width: (100 * a.cost) / most + '%'}})),
                 el('span', {class: 'cost'}, formatTime(a.cost),
                    a.signature === op.signature ? ' \u2713 chosen' : ''),
                 signatureLines(a.signature))));
}

// By rule, since one or two of them refuse most of an op's signatures.
function refusedOf(op) {
  return RULES.map((rule) => {
    const refused = op.refused.filter((r) => r.rule === rule);
    return refused.length === 0 ?
        null :
        el('div', {}, el('b', {}, rule.name), el('p', {class: 'muted'}, rule.reason),
           refused.map((r) => signatureLines(r.signature)));
  });
}

function operandRows(op) {
  const rows = op.inputs.map((t, i) => {
    const tensor = program.tensors[t], made = tensor.layout, read = op.reads[i] || '';
    const box = program.boxings.filter((b) => b.tensor === tensor.name && b.reader === op.name);
    return el(
        'tr', {}, el('td', {}, 'reads'),
        el('td', {}, opLink(tensor.producer, tensor.name),
           el('div', {class: 'muted'}, tensor.type)),
        el('td', {}, shortLayout(made),
           read && read !== made ? el('div', {class: 'rebox'}, 'read as ', shortLayout(read)) :
                                   null,
           box.map(
               (b) =>
                   el('div', {class: 'rebox'}, 'boxing ', boxLink(b), ' ' + formatBytes(b.wire)))));
  });
  for (const t of op.outputs) {
    const tensor = program.tensors[t];
    rows.push(
        el('tr', {}, el('td', {}, 'makes'),
           el('td', {}, tensor.name, el('div', {class: 'muted'}, tensor.type),
              tensor.readers.slice(0, 8).map((r) => el('div', {class: 'to'}, '\u2192 ', opLink(r))),
              tensor.readers.length > 8 ?
                  el('div', {class: 'muted'}, `and ${tensor.readers.length - 8} more`) :
                  null),
           el('td', {}, shortLayout(tensor.layout))));
  }
  return el('table', {class: 'operands'}, rows);
}

function opDetails(op) {
  const backward = program.ops.filter((o) => o.forward === op.id);
  return [
    el('h2', {}, op.name),
    el('p', {}, phaseBadge(op.phase), ' ', el('b', {}, op.op), ` on stage ${op.stage}`),
    facts([
      [
        'predicted',
        op.source ? '' : `${formatTime(op.time)} a step (${percent(op.time, program.step)} of it)`
      ],
      ['measured', op.measured ? `${formatTime(op.measured)} a step` : ''],
      [
        'compared',
        op.measured && op.time ? `${(op.measured / op.time).toFixed(2)} times what was predicted` :
                                 ''
      ],
      ['work', op.flops ? `${(op.flops / 1e6).toFixed(2)} MFLOP a step and device` : ''],
      ['gradient of', op.forward >= 0 ? opLink(program.ops[op.forward]) : ''],
    ]),
    op.signature ? [el('h3', {}, 'signature'), signatureLines(op.signature)] : null,
    op.signature ? [el('h3', {}, 'why: all that was legal, with its cost'), alternativesOf(op)] :
                   null,
    op.refused.length ? [el('h3', {}, 'refused, by rule'), refusedOf(op)] : null,
    op.gaveWay.length ?
        el('p', {class: 'muted'},
           `Nothing was legal until these gave way: ${op.gaveWay.map((r) => r.name).join(', ')}.`) :
        null,
    el('h3', {}, 'tensors'),
    operandRows(op),
    op.boxings.length ?
        [
          el('h3', {}, 'boxings'),
          el('ul', {},
             op.boxings.map(
                 (b) => el('li', {}, boxLink(b), ` ${formatBytes(b.wire)}, ${formatTime(b.time)}`)))
        ] :
        null,
    backward.length ?
        [el('h3', {}, 'its gradient'), el('ul', {}, backward.map((o) => el('li', {}, opLink(o))))] :
        null,
  ];
}

function boxDetails(b) {
  return [
    el('h2', {}, b.recipe),
    el('p', {}, el('span', {class: 'badge boxing'}, 'boxing'), ' in the ', b.phase,
       ' part of the step'),
    facts([
      ['tensor', b.maker ? opLink(b.maker, b.tensor) : b.tensor],
      ['asked by', b.asker ? opLink(b.asker) : b.reader],
      ['from', signatureLines(b.from)],
      ['to', signatureLines(b.to)],
      [
        'bytes',
        `${formatBytes(b.wire)} a step between devices` +
            (b.firings > 1 ? ` (${b.firings} \u00d7 ${formatBytes(b.bytes)})` : '')
      ],
      ['predicted', `${formatTime(b.time)} a step on the busiest device`],
      ['measured', b.measured ? `${formatTime(b.measured)} a step` : ''],
    ]),
    el('p', {class: 'muted'},
       b.asker && b.maker ?
           [
             'The line that makes ', el('b', {}, b.tensor), ' leaves it ', shortLayout(b.from),
             '; the line of ', el('b', {}, b.reader), ' reads it ', shortLayout(b.to), '.'
           ] :
           ''),
  ];
}

function renderSide() {
  const op = state.op != null ? program.opByName.get(state.op) : null;
  const box = state.box != null ? program.boxings[Number(state.box)] : null;
  const side = $('side');
  side.hidden = !op && !box;
  if (side.hidden) {
    side.replaceChildren();
    return;
  }
  const show = (tab) => el('button', {onclick: () => go({tab, focus: '1'})}, tab);
  side.replaceChildren(
      el('button', {class: 'close', title: 'close (Esc)', onclick: () => go({op: null, box: null})},
         '\u00d7'),
      ...[op ? opDetails(op) : boxDetails(box)].flat(3).filter(Boolean),
      el('p', {class: 'show'}, 'show in ', show('timeline'), show('graph'), show('memory')));
  side.scrollTop = 0;
}
