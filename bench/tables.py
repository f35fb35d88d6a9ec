"""The rows of a report as text and Markdown. Pure."""

import statistics

from bench import rooflines, step_lines
from bench.figures import best_peer_row, spread_text, text_of, text_of_share

HEADINGS = ("case", "ours", "spread", "limit", "share", "peer", "peer's", "spread", "ratio", "goal", "others used")


def cells_of(row):
    ours = text_of(statistics.median(row.ours), row.unit) if row.ours else row.trouble
    peer_value = row.trouble
    if row.theirs:
        peer_value = text_of(statistics.median(row.theirs), row.unit)
    limit = text_of(row.limit, row.unit)
    if limit and row.note:
        limit += " (%s)" % row.note
    return (row.name, ours, spread_text(row.ours, row.unit), limit,
            text_of_share(row.share), row.peer, peer_value if row.peer else "",
            spread_text(row.theirs, row.unit), "" if row.ratio is None else "%.2fx" % row.ratio, row.goal,
            "%.1f cores" % row.disturbance if row.disturbance else "")


def text_table(rows, parts=False):
    table = [HEADINGS] + [tuple(cell[:90] for cell in cells_of(row)) for row in rows]
    used = [i for i in range(len(HEADINGS)) if any(cells[i] for cells in table[1:])]
    widths = {i: max(len(cells[i]) for cells in table) for i in used}
    lines = ["  ".join(cells[i].ljust(widths[i]) for i in used).rstrip() for cells in table]
    return "\n".join(lines + (parts_lines(rows) if parts else [])) + "\n"


def shown_rows(group, rows):
    """Those that a table has: of a group of very many kernels their sums and those that are promised a share."""
    rows = [row for row in rows if not rooflines.is_limit(row)]
    return [row for row in rows if row.goal or not rooflines.is_kernel(row)] if group.many else rows


def parts_lines(rows):
    """The further counters of each row, as the phases of compiling."""
    return ["%s: %s" % (row.name, ", ".join("%s %.3g" % part for part in row.parts.items())) for row in rows
            if row.parts]


def markdown_table(headings, rows):
    lines = ["| %s |" % " | ".join(headings), "|%s" % ("---|" * len(headings))]
    return lines + ["| %s |" % " | ".join(cell.replace("|", "/") for cell in cells) for cells in rows]


def markdown(title, machine, warning, lines, groups, troubles):
    """`lines`: step_lines.Line; `groups`: (name, groups.Group, rows)."""
    out = ["# %s" % title, ""] + (["**%s**" % warning, ""] if warning else [])
    out += ["- %s: %s" % (key, value) for key, value in machine.items()]
    out += ["", "A ratio above 1 says that ours is better. Medians of whole processes, spread between processes.", ""]
    if lines:
        out += ["## A training step", ""]
        out += markdown_table(step_lines.HEADINGS, [step_lines.cells_of(line) for line in lines]) + [""]
    if troubles:
        out += ["## What has no figure", ""] + ["- %s" % trouble for trouble in troubles] + [""]
    for name, group, rows in groups:
        shown = shown_rows(group, rows)
        out += ["## %s" % name, "", group.what, ""] + markdown_table(HEADINGS, [cells_of(row) for row in shown])
        out += [""] + ["- %s" % line for line in (parts_lines(shown) if group.parts else [])] + [""]
    return "\n".join(out)


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
        lines.append("%s: %.2fx the best peer (%s), %s of the matmul limit: %s%s" % (
            name, best.ratio, best.peer, text_of_share(share), "reached" if reached else "not reached",
            "" if not without else "; without " + ", ".join(without)))
    return lines
