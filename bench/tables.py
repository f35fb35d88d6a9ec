"""The rows of a report as text, Markdown and a picture in SVG. Pure."""

import math
import statistics
from xml.sax.saxutils import escape

from bench.figures import best_peer_row, spread_text, text_of

_HEADINGS = ("case", "ours", "spread", "limit", "share", "peer", "peer's", "spread", "ratio", "goal")


def cells_of(row):
    ours = text_of(statistics.median(row.ours), row.unit) if row.ours else row.trouble
    peer_value = row.trouble
    if row.theirs:
        peer_value = text_of(statistics.median(row.theirs), row.unit)
    limit = text_of(row.limit, row.unit)
    if limit and row.note:
        limit += " (%s)" % row.note
    return (row.name, ours, spread_text(row.ours, row.unit), limit,
            "" if row.share is None else "%.2f" % row.share, row.peer, peer_value if row.peer else "",
            spread_text(row.theirs, row.unit), "" if row.ratio is None else "%.2fx" % row.ratio, row.goal)


def text_table(rows, parts=False):
    table = [_HEADINGS] + [tuple(cell[:90] for cell in cells_of(row)) for row in rows]
    used = [i for i in range(len(_HEADINGS)) if any(cells[i] for cells in table[1:])]
    widths = {i: max(len(cells[i]) for cells in table) for i in used}
    lines = ["  ".join(cells[i].ljust(widths[i]) for i in used).rstrip() for cells in table]
    return "\n".join(lines + (parts_lines(rows) if parts else [])) + "\n"


def parts_lines(rows):
    """The further counters of each row, as the phases of compiling."""
    return ["%s: %s" % (row.name, ", ".join("%s %.3g" % part for part in row.parts.items())) for row in rows
            if row.parts]


def markdown(title, machine, groups, troubles):
    """`groups`: (name, groups.Group, rows)."""
    lines = ["# %s" % title, ""]
    lines += ["- %s: %s" % (key, value) for key, value in machine.items()]
    lines += ["", "A ratio above 1 says that ours is better. Medians of whole processes, spread between processes.", ""]
    if troubles:
        lines += ["## What has no figure", ""] + ["- %s" % trouble for trouble in troubles] + [""]
    for name, group, rows in groups:
        lines += ["## %s" % name, "", group.what, "", "| %s |" % " | ".join(_HEADINGS), "|%s" % ("---|" * len(_HEADINGS))]
        lines += ["| %s |" % " | ".join(cell.replace("|", "/") for cell in cells_of(row)) for row in rows]
        lines += [""] + ["- %s" % line for line in (parts_lines(rows) if group.parts else [])] + [""]
    return "\n".join(lines)


_STYLE = """
  svg { background: #ffffff; font: 12px sans-serif; }
  text { fill: #222222; } .faint { fill: #777777; } .ours { fill: #2f6fb5; } .good { fill: #2e8b57; }
  .bad { fill: #c0503a; } .line { stroke: #999999; stroke-dasharray: 3 3; } .head { font-weight: bold; font-size: 15px; }
  @media (prefers-color-scheme: dark) {
    svg { background: #16181c; } text { fill: #dddddd; } .faint { fill: #999999; } .ours { fill: #6aa5e8; }
    .good { fill: #5cc08a; } .bad { fill: #e07a62; }
  }
"""
_NAMES, _BARS, _LINE = 380, 420, 18


def picture(title, subtitle, rows):
    """Bars of the share of the limit, then of the ratio to the peer, which may also be missing."""
    # Of what is part of a sum, with its "times", the sum is enough.
    shares = [row for i, row in enumerate(rows) if row.share is not None and "times" not in row.parts
              and row.name not in [r.name for r in rows[:i]]]
    peers = [row for row in rows if row.peer]
    out = []
    y = 30

    def text(x, y, words, style="", anchor="start"):
        out.append('<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>' % (x, y, style, anchor, escape(words)))

    def bar(y, begin, end, style):
        out.append('<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="2" class="%s"/>' % (
            min(begin, end), y - 10, max(1.0, abs(end - begin)), 12, style))

    def upright(x, begin, end):
        out.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="line"/>' % (x, begin, x, end))

    text(20, y, title, "head")
    y += 20
    text(20, y, subtitle, "faint")
    y += 34
    if shares:
        text(20, y, "Share of the limit measured in the same run (dashed: all of it)", "head")
        begin = y + 8
        for row in shares:
            y += _LINE
            text(_NAMES - 8, y, row.name, "", "end")
            bar(y, _NAMES, _NAMES + _BARS * min(1.15, row.share) / 1.2, "ours")
            text(_NAMES + _BARS * min(1.15, row.share) / 1.2 + 6, y, "%.2f %s" % (row.share, row.note), "faint")
        upright(_NAMES + _BARS / 1.2, begin, y + 6)
        y += 40
    if peers:
        text(20, y, "Times the peer, on a logarithmic scale (dashed: the same)", "head")
        begin = y + 8
        largest = max([abs(math.log2(row.ratio)) for row in peers if row.ratio] + [1.0])
        middle = _NAMES + 60 + _BARS / 2
        for row in peers:
            y += _LINE
            text(_NAMES + 52, y, "%s against %s" % (row.name, row.peer), "", "end")
            if row.ratio is None:
                text(middle + 6, y, row.trouble[:60] or "no figure", "faint")
                continue
            end = middle + _BARS / 2 * math.log2(row.ratio) / largest
            bar(y, middle, end, "good" if row.ratio >= 1 else "bad")
            text(max(end, middle) + 6, y, "%.2fx" % row.ratio, "faint")
        upright(middle, begin, y + 6)
        y += 30
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="1000" height="%d" viewBox="0 0 1000 %d">\n<style>%s</style>\n'
            '%s\n</svg>\n' % (y, y, _STYLE, "\n".join(out)))


def goals_of_gpt(rows):
    """Lines on the aim of a training step: min(1.7x the best peer, 0.6 of the limit), never under 1.2x."""
    lines = []
    for name in dict.fromkeys(row.name for row in rows if row.name.endswith("/step")):
        beside = [row for row in rows if row.name == name]
        best = best_peer_row(beside)
        if best is None:
            lines.append("%s: no peer gave a figure, so nothing can be said of the ratio" % name)
            continue
        share = best.share or 0
        without = sorted({row.peer for row in beside if row.ratio is None})
        reached = best.ratio >= 1.2 and (best.ratio >= 1.7 or share >= 0.6)
        lines.append("%s: %.2fx the best peer (%s), %.2f of the matmul limit: %s%s" % (
            name, best.ratio, best.peer, share, "reached" if reached else "not reached",
            "" if not without else "; without " + ", ".join(without)))
    return lines
