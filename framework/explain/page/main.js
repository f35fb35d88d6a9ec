const TABS = {
  overview: () => ({mount: overview.mount}),
  timeline: () => new Timeline(),
  memory: () => new MemoryMap(),
  graph: () => new GraphView(),
  ops: opsTable,
  boxings: boxingsTable,
  waits: waitsTable,
  variables: variablesTable,
};
const programs = raw.programs.map(() => null);
let program = null, tab = null, mounted = '';

function render() {
  const name = state.program || raw.programs[0].name;
  const index = Math.max(0, raw.programs.findIndex((p) => p.name === name));
  program = programs[index] || (programs[index] = decodeProgram(raw.programs[index], index));
  const which = TABS[state.tab] ? state.tab : 'overview';
  const dark =
      state.theme ? state.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  readPalette();
  $('program').value = program.name;
  if ($('search').value !== (state.q || '')) $('search').value = state.q || '';
  for (const button of $('tabs').children)
    button.setAttribute('aria-selected', button.dataset.tab === which);
  renderSide();
  // A tab that cannot follow the state itself is made anew.
  const key = [
    index, which, which === 'waits' && state.waits,
    which === 'memory' && [state.device, state.variables, state.bytes].join(), state.focus
  ].join('\n');
  if (key === mounted && tab.update) {
    tab.update();
    return;
  }
  if (key === mounted) return;
  const focus = state.focus;
  if (tab && tab.unmount) tab.unmount();
  tip.hide();  // of the tab before
  const main = $('main');
  main.replaceChildren();
  main.className = which;
  tab = TABS[which]();
  tab.mount(main);
  if (focus)
    setTimeout(() => {
      delete state.focus;
      mounted = mounted.slice(0, -focus.length);
    }, 500);
  mounted = key;
}

function start() {
  readState();
  $('mesh').textContent = raw.mesh +
      (raw.programs[0].micro_batches > 1 ? `  micro=${raw.programs[0].micro_batches}` : '');
  document.title = 'Sluice plan, ' + raw.mesh;
  $('program').append(...raw.programs.map((p) => el('option', {value: p.name}, p.name)));
  $('program').addEventListener(
      'change',
      (e) => go(
          {program: e.target.value, op: null, box: null, range: null, bytes: null, device: null}));
  for (const name of Object.keys(TABS)) {
    $('tabs').append(
        el('button', {role: 'tab', 'data-tab': name, onclick: () => go({tab: name, sort: null})},
           name));
  }
  $('theme').addEventListener(
      'click', () => go({
                 theme: document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark',
                 dark: null,
                 light: null
               }));
  let typing = 0;
  $('search').addEventListener('input', (e) => {
    clearTimeout(typing);
    typing = setTimeout(() => go({q: e.target.value}), 120);
  });
  addEventListener('hashchange', () => {
    readState();
    mounted = '';
    render();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    mounted = '';
    render();
  });
  addEventListener('keydown', (e) => {
    if (e.key === '/' && document.activeElement !== $('search')) {
      e.preventDefault();
      $('search').focus();
    }
    if (e.key === 'Escape') {
      if (document.activeElement === $('search') && state.q)
        go({q: null});
      else
        go({op: null, box: null});
    }
  });
  render();
}
start();
