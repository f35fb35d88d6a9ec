// Names what page.cc and session/explain_measured.cc wrote as arrays.
const raw = JSON.parse(document.getElementById('data').textContent);
const str = (i) => raw.strings[i];
const RULES = raw.rules.map((rule) => ({name: str(rule[0]), reason: str(rule[1])}));
const PHASES = ['forward', 'backward', 'update'];
const MEMORY_KINDS = [
  'parameter', 'optimizer state', 'kept for backward', 'activation', 'gradient', 'update', 'boxing',
  'feeds and fetches'
];

function decodeProgram(p, index) {
  const program = {
    index,
    name: p.name,
    micro: p.micro_batches,
    warnings: p.warnings,
    classes: p.device_classes,
    registers: p.registers,
    reuseEdges: p.reuse_edges,
    step: p.step_nanoseconds,
    makespan: p.makespan,
  };
  program.tensors = p.tensors.map(
      (t, id) => ({id, name: str(t[0]), type: str(t[1]), layout: str(t[2]), readers: []}));
  program.ops = p.ops.map((o, id) => ({
                            id,
                            name: str(o[0]),
                            op: str(o[1]),
                            phase: PHASES[o[2]],
                            stage: o[3],
                            forward: o[4],
                            inputs: o[5],
                            outputs: o[6],
                            reads: o[7].map(str),
                            signature: str(o[8]),
                            cost: o[9],
                            alternatives: o[10].map((a) => ({signature: str(a[0]), cost: a[1]})),
                            refused: o[11].map((r) => ({signature: str(r[0]), rule: RULES[r[1]]})),
                            gaveWay: o[12].map((rule) => RULES[rule]),
                            time: 0,
                            measured: 0,
                            boxings: [],
                          }));
  program.opByName = new Map(program.ops.map((o) => [o.name, o]));
  for (const o of program.ops) {
    o.block = blockOf(o.name);
    o.source = o.op === 'variable' || o.op === 'input';
    for (const t of o.outputs) program.tensors[t].producer = o;
    for (const t of o.inputs) program.tensors[t].readers.push(o);
  }
  program.boxings = p.boxings.map((b, id) => ({
                                    id,
                                    tensor: str(b[0]),
                                    recipe: str(b[1]),
                                    from: str(b[2]),
                                    to: str(b[3]),
                                    reader: str(b[4]),
                                    phase: PHASES[b[5]],
                                    firings: b[6],
                                    bytes: b[7],
                                    wire: b[6] * b[7],
                                    time: b[8],
                                    measured: 0,
                                  }));
  for (const b of program.boxings) {
    b.maker = program.opByName.get(b.tensor) || program.opByName.get(b.tensor.replace(/:\d+$/, ''));
    b.asker = program.opByName.get(b.reader);
    if (b.maker) b.maker.boxings.push(b);
    if (b.asker && b.asker !== b.maker) b.asker.boxings.push(b);
  }
  program.actors = p.actors.map((a, id) => ({
                                  id,
                                  name: str(a[0]),
                                  device: a[1],
                                  stream: a[2],
                                  firings: a[3],
                                  representative: a[4],
                                  script: a[5].map((x) => ({
                                                     op: str(x[0]),
                                                     scope: str(x[1]),
                                                     node: x[2],
                                                     boxing: x[3],
                                                     phase: PHASES[x[4]],
                                                     flops: x[5],
                                                     bytes: x[6],
                                                     wire: x[7],
                                                     time: x[8],
                                                   })),
                                }));
  program.streams = p.streams.map(
      (s, id) => ({
        id,
        device: s[0],
        kind: str(s[1]),
        spans: s[2].map(
            (x) => makeSpan(program, x, x.length > 5 ? {what: str(x[5]), by: x[6]} : null)),
      }));
  program.devices = p.devices.map((d, id) => ({
                                    id,
                                    representative: d.representative,
                                    variables: d.variables,
                                    packed: d.packed,
                                    live: d.live,
                                    peakTime: d.peak_time,
                                    peak: d.peak,
                                    memory: d.memory.map((m, block) => ({
                                                           id: block,
                                                           name: str(m[0]),
                                                           kind: m[1],
                                                           offset: m[2],
                                                           bytes: m[3],
                                                           begin: m[4],
                                                           end: m[5],
                                                           maker: m[6],
                                                           madeAt: m[7],
                                                           last: m[8],
                                                           freedAt: m[9],
                                                         })),
                                  }));
  program.representatives = program.devices.filter((d) => d.representative === d.id);
  program.members = (device) =>
      program.devices.filter((d) => d.representative === device).map((d) => d.id);
  sumTimes(program);
  program.measured = p.measured ? decodeMeasured(program, p.measured) : null;
  program.blocks = [...new Set(program.ops.filter((o) => !o.source).map((o) => o.block))];
  return program;
}

function blockOf(name) {
  const slash = name.indexOf('/');
  return slash < 0 ? name : name.slice(0, slash);
}

function makeSpan(program, x, wait) {
  return {
    actor: x[0],
    firing: x[1],
    at: x[2],
    begin: x[3],
    length: x[4],
    wait,
    x: program.actors[x[0]].script[x[2]]
  };
}

// Of ops and boxings, a step: on the device of a class that they take most of.
function sumTimes(program) {
  const byDevice = new Map();
  for (const actor of program.actors) {
    for (const x of actor.script) {
      if (x.node < 0) continue;
      const key = actor.device + ':' + x.node;
      const sum = (byDevice.get(key) || 0) + x.time * actor.firings;
      byDevice.set(key, sum);
      const op = program.ops[x.node];
      op.time = Math.max(op.time, sum);
      op.flops = x.flops * actor.firings;
    }
  }
}

function decodeMeasured(program, m) {
  const measured = {step: m.step, makespan: m.makespan, steps: m.steps};
  const usual = m.steps.slice(m.steps.length > 2 ? 2 : 0).sort((a, b) => a - b);
  measured.median = usual[usual.length >> 1];
  measured.streams = m.streams.map((s) => s.map((x) => {
                                             const span = makeSpan(program, x, null);
                                             span.worker = x[5];
                                             return span;
                                           }).sort((a, b) => a.begin - b.begin));
  measured.waits = m.waits.map((w) => ({
                                 worker: w[0],
                                 stream: w[1],
                                 actor: w[2],
                                 what: str(w[3]),
                                 by: w[4],
                                 begin: w[5],
                                 length: w[6]
                               }));
  measured.owed =
      m.debts.map((w) => ({actor: w[0], what: str(w[1]), by: w[2], total: w[3], count: w[4]}));
  const byDevice = new Map();
  for (const [a, at, mean, least, most, count] of m.instructions) {
    const actor = program.actors[a], x = actor.script[at];
    x.measured = {mean, least, most, count};
    const of = x.node >= 0 ? program.ops[x.node] : x.boxing >= 0 ? program.boxings[x.boxing] : null;
    if (!of) continue;
    const key = actor.device + (x.node >= 0 ? ':o' : ':b') + of.id;
    const sum = (byDevice.get(key) || 0) + mean * actor.firings;
    byDevice.set(key, sum);
    of.measured = Math.max(of.measured, sum);
  }
  return measured;
}

// What the streams of the predicted step stood still for.
function predictedOwed(program) {
  const owed = new Map();
  for (const stream of program.streams) {
    if (stream.kind !== 'compute') continue;
    let end = 0;
    for (const span of stream.spans) {
      if (span.begin > end && span.wait) {
        const key = span.actor + '\n' + span.wait.what + '\n' + span.wait.by;
        const entry = owed.get(key) ||
            {actor: span.actor, what: span.wait.what, by: span.wait.by, total: 0, count: 0};
        entry.total += span.begin - end;
        entry.count++;
        owed.set(key, entry);
      }
      end = Math.max(end, span.begin + span.length);
    }
  }
  return [...owed.values()];
}
