// Looks at a page for ci/pages.py. It runs before the page's own scripts, so that it sees every
// text that is drawn on a canvas.
/* exported probe */
const probe = (() => {
  const drawn = new WeakMap();  // by canvas: the texts since it was cleared last
  const prototype = CanvasRenderingContext2D.prototype;
  const {clearRect, fillText} = prototype;
  prototype.clearRect = function(...box) {
    drawn.set(this.canvas, []);
    return clearRect.apply(this, box);
  };
  prototype.fillText = function(text, ...place) {
    if (!drawn.has(this.canvas)) drawn.set(this.canvas, []);
    drawn.get(this.canvas).push(String(text));
    return fillText.call(this, text, ...place);
  };

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const textOf = (selector) => all(selector).map((node) => node.innerText).join('\n');

  // Counts the colors of a canvas, by a copy of a few hundred pixels: a canvas that is read often
  // is moved from the graphics processor, and Chromium then complains in the page's console.
  const copy = new OffscreenCanvas(400, 250);
  const copied = copy.getContext('2d', {willReadFrequently: true});
  function colorsOf(canvas) {
    if (!canvas.width || !canvas.height) return 0;
    copied.imageSmoothingEnabled = false;
    copied.clearRect(0, 0, copy.width, copy.height);
    copied.drawImage(canvas, 0, 0, copy.width, copy.height);
    const bytes = copied.getImageData(0, 0, copy.width, copy.height).data;
    return new Set(new Uint32Array(bytes.buffer)).size;
  }

  return {
    // What a tab shows: text, texts on canvases, and how it fits the window.
    seen() {
      const canvases = all('main canvas');
      const main = all('main')[0] || document.body, box = main.getBoundingClientRect();
      return {
        text: main.innerText,
        side: textOf('aside:not([hidden])'),
        tip: textOf('#tip:not([hidden])'),
        drawn: canvases.flatMap((canvas) => drawn.get(canvas) || []),
        colors: canvases.map(colorsOf),
        width: box.width,
        height: box.height,
        beyond: document.documentElement.scrollWidth - innerWidth,
      };
    },
    // Moves the pointer over a canvas, as far as `steps` by `steps` places; gives the tips.
    sweep(steps) {
      const canvas = all('main canvas')[0], box = canvas.getBoundingClientRect(), tips = new Set();
      for (let i = 0; i < steps * steps; ++i) {
        const clientX = box.left + (0.5 + (i % steps)) * box.width / steps,
              clientY = box.top + (0.5 + Math.floor(i / steps)) * box.height / steps;
        canvas.dispatchEvent(
            new PointerEvent('pointermove', {clientX, clientY, bubbles: true, cancelable: true}));
        const tip = textOf('#tip:not([hidden])');
        if (tip) tips.add(tip);
      }
      return [...tips];
    },
    // Clicks what a selector finds first, or what of it has this text; says whether there was any.
    click(selector, text = null) {
      const node = all(selector).find((each) => text === null || each.innerText === text);
      if (node) node.click();
      return node !== undefined;
    },
    // A table's cells as text, row by row, of the rows that exist.
    rows(selector) {
      return all(selector).map((row) => all('td', row).map((cell) => cell.innerText));
    },
    // Names headings with nothing below them, and tables, lists and pictures of which nothing is
    // seen.
    emptyParts() {
      const empty = [];
      for (const heading of all('h2, h3')) {
        const next = heading.nextElementSibling;
        if (!next || (/^H[1-3]$/.test(next.tagName) && next.tagName <= heading.tagName))
          empty.push(`what follows "${heading.innerText}"`);
      }
      for (const part of all('table, ul, svg')) {
        const box = part.getBoundingClientRect(), filled = part.childElementCount > 0;
        if (!filled || box.width < 4 || box.height < 4) empty.push(`a ${part.tagName}`);
      }
      return empty;
    },
    // Of an SVG: texts that reach over its edge, and pairs of texts that lie on each other.
    badTexts() {
      const bad = [];
      for (const svg of all('svg')) {
        const edge = svg.getBoundingClientRect(),
              texts = all('text', svg).filter((node) => node.textContent.trim());
        const boxes = texts.map((node) => node.getBoundingClientRect());
        const nameOf = (i) => JSON.stringify(texts[i].textContent);
        boxes.forEach((a, i) => {
          if (a.left < edge.left - 1 || a.right > edge.right + 1 || a.top < edge.top - 1 ||
              a.bottom > edge.bottom + 1)
            bad.push(`${nameOf(i)} reaches over the edge`);
          for (let j = 0; j < i; ++j) {
            const b = boxes[j], wide = Math.min(a.right, b.right) - Math.max(a.left, b.left),
                  high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 2 && high > Math.min(a.height, b.height) / 2)
              bad.push(`${nameOf(j)} and ${nameOf(i)} lie on each other`);
          }
        });
      }
      return bad;
    },
  };
})();
