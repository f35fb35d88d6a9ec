"""The report as one page for any browser, without network: steps beside peers, memory, curves, rooflines, tables.

Pure.
"""

from html import escape

from bench import charts, rooflines, step_lines, tables
from bench.figures import text_of

STYLE = """
  body { font: 15px/1.5 sans-serif; max-width: 1240px; margin: 2em auto; padding: 0 1em; }
  body { color: #222222; background: #ffffff; }
  h1 { font-size: 24px; } h2 { font-size: 19px; margin-top: 2em; }
  table { border-collapse: collapse; font-size: 12.5px; } .wide { overflow-x: auto; }
  th, td { text-align: left; padding: 3px 9px 3px 0; border-bottom: 1px solid #dddddd; vertical-align: top; }
  .warning { border-left: 4px solid #c0503a; padding: 0.3em 0.8em; background: #fbeeea; }
  .curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 1em; }
  figure { margin: 0; } figcaption { font-size: 13px; color: #777777; } svg { width: 100%; height: auto; }
  svg.chart { font: 12px sans-serif; max-width: 1000px; display: block; }
  svg.chart text { fill: #222222; } svg.chart .faint { fill: #777777; } svg.chart .small { font-size: 10.5px; }
  svg.chart .head { font-weight: bold; font-size: 13px; }
  .ours { fill: #2f6fb5; } .peer { fill: #b9bfc7; } .good { fill: #2e8b57; } .bad { fill: #c0503a; }
  .dashed, .dotted { stroke: #444444; stroke-dasharray: 5 3; } .dotted { stroke-dasharray: 1.5 2.5; }
  .grid { stroke: #999999; stroke-opacity: 0.25; }
  .limit { stroke: #444444; stroke-width: 1.2; fill: none; }
  .m0 { fill: #2f6fb5; stroke: #2f6fb5; } .m1 { fill: #c0503a; stroke: #c0503a; }
  .m2 { fill: #2e8b57; stroke: #2e8b57; } .m3 { fill: #8a62b0; stroke: #8a62b0; }
  .m4 { fill: #c08a1e; stroke: #c08a1e; } .m5 { fill: #2a9d9d; stroke: #2a9d9d; }
  .m6 { fill: #7a6a58; stroke: #7a6a58; }
  circle { fill-opacity: 0.55; stroke-width: 1.2; } circle.hollow { fill-opacity: 0.08; }
  @media (prefers-color-scheme: dark) {
    body { color: #dddddd; background: #16181c; } th, td { border-color: #3a3d42; } .warning { background: #33231f; }
    svg.chart text { fill: #dddddd; } svg.chart .faint, figcaption { fill: #999999; color: #999999; }
    .peer { fill: #5b626b; } .dashed, .dotted, .limit { stroke: #bbbbbb; }
  }
"""


def table(headings, rows):
    def row(cells, tag):
        return "<tr>%s</tr>" % "".join("<%s>%s</%s>" % (tag, escape(cell), tag) for cell in cells)

    body = "".join(row(cells, "td") for cells in rows)
    return '<div class="wide"><table>%s%s</table></div>' % (row(headings, "th"), body)


def time_bars(lines, limits=("products at their limit", "every kernel at its limit")):
    """`limits`: what a line's two limits are called."""
    cases = []
    for line in lines:
        words = "%s, %.3g steps/s" % (text_of(line.ours, "ns"), 1e9 / line.ours) if line.ours else line.trouble
        entries = [("Sluice", line.ours, words, "ours")]
        for name, value in line.peers.items():
            if isinstance(value, str):
                entries.append((name, None, value[:70], "peer"))
            else:
                ratio = line.ratios.get(name)
                words = text_of(value, "ns") + ("" if ratio is None else ", %.2fx ours" % ratio)
                entries.append((name, value, words, "peer"))
        marks = [mark for mark in ((line.limit, limits[0], "dashed"), (line.kernels_limit, limits[1], "dotted")) if mark[0]]
        disturbed = ", while others used %.1f cores" % line.disturbance if line.disturbance else ""
        cases.append((line.title + disturbed, entries, marks))
    return charts.bars(cases)


def memory_bars(lines):
    cases = []
    for line in lines:
        if not line.memory:
            continue
        entries = [("Sluice", line.memory, text_of(line.memory, "B"), "ours")]
        entries += [(name, value, text_of(value, "B"), "peer") for name, value in line.peers_memory.items()]
        cases.append((line.title, entries, []))
    return charts.bars(cases)


def _rooflines(kernels, sizes):
    """`sizes`: (what ops_benchmark calls a step, title)."""
    styles = {size: "m%d" % (i % 6) for i, (size, _) in enumerate(sizes)}
    present = [(size, title) for size, title in sizes
               if any(row.name.startswith("ops/%s/" % size) for row in kernels)]
    legend = [(styles[size], title) for size, title in present]
    return rooflines.arithmetic(kernels, styles, legend), rooflines.memory(kernels, styles, legend)


def html(title, machine, warning, lines, sections, kernels, sizes, curves, troubles):
    """`lines`: step_lines.Line; `sections`: (name, groups.Group, rows) as tables.markdown has them; `kernels`: all rows
    of group ops; `sizes`: (what ops_benchmark calls a step, title); `curves`: (SVG, where it is from)."""
    head = '<meta charset="utf-8"/><title>%s</title><style>%s</style>' % (escape(title), STYLE)
    out = ["<!DOCTYPE html>", '<html lang="en"><head>%s</head><body>' % head, "<h1>%s</h1>" % escape(title)]
    if warning:
        out.append('<p class="warning">%s</p>' % escape(warning))
    out.append(table(("", ""), machine.items()))
    if lines:
        out += ["<h2>A training step</h2>",
                "<p>Forward, backward and update. Medians of whole processes, which took turns. A ratio above 1 "
                "says that Sluice is faster. Limits were measured in the same run.</p>",
                table(step_lines.HEADINGS, [step_lines.cells_of(line) for line in lines]),
                "<h2>Time of a step</h2>", time_bars(lines),
                "<h2>Memory</h2>", "<p>The process's largest resident size.</p>", memory_bars(lines)]
    if curves:
        out += ["<h2>What the models learn</h2>", '<div class="curves">']
        out += ["<figure>%s<figcaption>%s</figcaption></figure>" % (svg, escape(source))
                for svg, source in curves]
        out.append("</div>")
    if any(rooflines.is_kernel(row) for row in kernels):
        arithmetic, memory = _rooflines(kernels, sizes)
        out += ["<h2>Every kernel of these steps against the machine's limits</h2>",
                "<p>Two threads. The larger a dot, the larger its share of the step; hollow: bf16; without those "
                "that take less than a ten-thousandth of a step. Lines are limits measured in the same processes.</p>",
                "<h3>Products, convolutions and attention</h3>", arithmetic,
                "<h3>All others</h3>", memory]
    if troubles:
        listed = "".join("<li>%s</li>" % escape(text) for text in troubles)
        out += ["<h2>What has no figure</h2>", "<ul>%s</ul>" % listed]
    for name, group, rows in sections:
        shown = tables.shown_rows(group, rows)
        out += ["<h2>%s</h2>" % escape(name), "<p>%s</p>" % escape(group.what),
                table(tables.HEADINGS, [tables.cells_of(row) for row in shown])]
        if len(shown) < len(rows):
            every = [tables.cells_of(row) for row in rows if rooflines.is_kernel(row)]
            out += ["<details><summary>every kernel</summary>", table(tables.HEADINGS, every), "</details>"]
    return "\n".join(out + ["</body></html>", ""])
