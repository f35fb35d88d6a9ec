"""The report of ci/gpu run: Markdown, JSON, and a page with pictures, of what the parts left. Pure but for write."""
import json
import os
from html import escape

import gpu_parts
from bench import figures, page, rooflines, tables
from bench.figures import text_of
from bench.step_lines import Line

# What issue and design aim for in bf16: so many times as fast as the best PyTorch, and no more of its memory.
_FASTER = {"gpt_tiny": 2.0, "gpt2_124m": 1.1, "gpt2_350m": 1.1, "bert_base": 1.1, "resnet50": 1.1}
_MEMORY = 0.8
_BANDWIDTH = 0.85  # that kernels bound by memory aim for
_NOTICED = 0.01  # a kernel's share of the step from which a table has it


def title_of(context):
    if context.emulated:
        return "Sluice on the emulation of a GPU: a rehearsal and NO MEASUREMENT"
    return "Sluice on %s" % (context.machine.card or "a machine without a GPU")


def warning_of(context):
    if context.emulated:
        return ("All of this ran on a CPU, on small forms of the models. Times, rates, shares and memory say nothing of "
                "any GPU: they show that the command works.")
    if not context.machine.card:
        return "No GPU ran a kernel here, so nothing was measured."
    return ""


def step_lines(context):
    """bench.step_lines.Line of each model and precision that was measured or predicted, in the order of models."""
    lines = []
    for precision in reversed(gpu_parts.PRECISIONS):
        for model in context.models:
            ours = _find(context.steps, model, precision)
            predicted = _predicted(context, model, precision)
            if ours is None and predicted is None:
                continue
            title = (ours or predicted)["title"]
            line = Line("%s/%s" % (model, precision), "%s, %s" % (title, precision),
                        trouble="" if ours else "not measured")
            if ours:
                line.ours, line.memory = ours["median_ms"] * 1e6, ours.get("device_peak_bytes")
            if predicted:
                line.limit = predicted["limit_ms"] * 1e6
            kernels = _kernels_of_step(context, model, precision)
            line.kernels_limit = kernels.limit if kernels else None
            for peer in [each for each in context.peers if (each["size"], each["precision"]) == (model, precision)]:
                line.peers[peer["peer"]] = peer["median_ms"] * 1e6
                line.peers_memory[peer["peer"]] = peer.get("device_peak_bytes")
                if ours:
                    line.ratios[peer["peer"]] = peer["median_ms"] / ours["median_ms"]
            lines.append(line)
    return lines


def _find(lines, model, precision):
    return next((line for line in lines if (line["size"], line["precision"]) == (model, precision)), None)


def _prefix(model, precision):
    return "ops/%s/cuda/%s" % (model, "" if precision == "f32" else precision + "/")


def _predicted(context, model, precision):
    return next((each for each in context.predicted if (each["model"], each["precision"]) == (model, precision)), None)


def _kernels_of_step(context, model, precision):
    """The figure of all of a step's kernels, one after the other; None where they were not timed."""
    name = _prefix(model, precision) + "kernels of a step"
    return next((figure for figure in context.kernels if figure.name == name), None)


STEP_HEADINGS = ("step", "ours", "its kernels alone", "launches", "predicted at the peaks", "share", "PyTorch eager",
                 "compiled", "the better of them / ours", "asked", "memory of the card", "of the smaller PyTorch's", "asked")


def _step_cells(context, line):
    model, precision = line.case.split("/")
    kernels, predicted = _kernels_of_step(context, model, precision), _predicted(context, model, precision)
    best = line.best
    smallest = min([value for value in line.peers_memory.values() if value] or [0])
    share = line.limit / line.ours if line.limit and line.ours else None
    aims = precision == "bf16"
    return (line.title, text_of(line.ours, "ns") or line.trouble, text_of(kernels.value, "ns") if kernels else "",
            "%d" % predicted["launches"] if predicted else "", text_of(line.limit, "ns"),
            "" if share is None else "%.2f" % share, text_of(line.peers.get("PyTorch eager"), "ns"),
            text_of(line.peers.get("PyTorch compiled"), "ns"), "" if best is None else "%.2f" % best[1],
            "%.1f" % _FASTER[model] if aims and model in _FASTER else "", text_of(line.memory, "B"),
            "%.2f" % (line.memory / smallest) if smallest and line.memory else "", "%.1f" % _MEMORY if aims else "")


KERNEL_HEADINGS = ("kernel", "times a step", "share of the step", "a run", "at the peak", "share of the peak", "binds", "rate")


def _kernel_cells(figure):
    parts = figure.parts
    rate = text_of(parts["flops_per_second"], "FLOP/s") if figure.note == "arithmetic" else text_of(
        parts["bytes_per_second"], "B/s")
    return (figure.name.split("/")[-1], "%d" % parts["times"], "%.3f" % parts["share of the step"],
            text_of(figure.value, "ns"), text_of(figure.limit, "ns"), "%.2f" % (figure.share or 0), figure.note, rate)


def kernel_tables(context):
    """(title, what to know first, figures that a step notices), one for each model and precision that was timed."""
    found = []
    for precision in reversed(gpu_parts.PRECISIONS):
        for model in context.models:
            prefix = _prefix(model, precision)
            own = [figure for figure in context.kernels if figure.name.startswith(prefix) and
                   (precision != "f32" or not figure.name.startswith(prefix + "bf16/"))]
            timed = [figure for figure in own if "times" in figure.parts]
            if timed:
                found.append(("%s, %s" % (model, precision), _kernel_summary(own, timed),
                              [figure for figure in timed if figure.parts["share of the step"] >= _NOTICED]))
    return found


def _kernel_summary(own, timed):
    by_name = {figure.name.split("/cuda/")[1].replace("bf16/", "", 1): figure for figure in own}
    total, memory = by_name["kernels of a step"], by_name["peak/memory"]
    bound = [figure for figure in timed if figure.note == "memory" and figure.parts["share of the step"] >= _NOTICED]
    reached = [figure for figure in bound if (figure.share or 0) >= _BANDWIDTH]
    source = "as published for %s" % memory.note if memory.note != "measured" else "as a large copy and product reached here"
    return ("All kernels, one after the other: %s, %.2f of what they would take at the peaks (memory %s, arithmetic %s, %s). "
            "Of %d kernels that memory binds and a step notices, %d reach %.2f of it." % (
                text_of(total.value, "ns"), total.share or 0, text_of(memory.value, "B/s"),
                text_of(by_name["peak/arithmetic"].value, "FLOP/s"), source, len(bound), len(reached), _BANDWIDTH))


def facts_of(context, manifest, names):
    facts = dict(context.machine.facts)
    facts.update({"programs of": "revision %s, %s, packed %s" % (manifest["revision"], manifest["cuda"], manifest["packed"]),
                  "parts": ", ".join(names)})
    return facts


_ABOUT_STEPS = (
    "Medians of steps in one process each, two under way at a time, ours and PyTorch's. \"Predicted\" is "
    "//bench:gpu_steps: every instruction at the card's published peaks, one after the other, launches free. What a step "
    "takes beyond its kernels alone is launches and the host. Memory is what the process took of the card beyond its "
    "context; PyTorch's is what its allocator reserved. PyTorch's f32 has no TF32, as ours; its "
    "batches lie on the card, ours come from the host for each step.")


def _outcome_cells(outcome):
    return (outcome.part, outcome.name, outcome.state, "%.1f s" % outcome.seconds if outcome.seconds else "", outcome.text)


OUTCOME_HEADINGS = ("part", "case", "outcome", "took", "")


def _notable(context):
    """Failures and what was skipped first, then the rest."""
    order = {gpu_parts.FAILED: 0, gpu_parts.SKIPPED: 1, gpu_parts.PASSED: 2}
    return sorted(context.outcomes, key=lambda outcome: order[outcome.state])


def markdown(context, manifest, names):
    warning = warning_of(context)
    out = ["# " + title_of(context), ""] + (["**%s**" % warning, ""] if warning else [])
    out += ["- %s: %s" % fact for fact in facts_of(context, manifest, names).items()]
    lines = step_lines(context)
    if lines:
        out += ["", "## A training step", "", _ABOUT_STEPS, ""]
        out += tables.markdown_table(STEP_HEADINGS, [_step_cells(context, line) for line in lines])
    out += ["", "## What was checked", ""]
    out += tables.markdown_table(OUTCOME_HEADINGS, [_outcome_cells(outcome) for outcome in _notable(context)])
    for title, summary, noticed in kernel_tables(context):
        out += ["", "## Kernels of %s" % title, "", summary, ""]
        out += tables.markdown_table(KERNEL_HEADINGS, [_kernel_cells(figure) for figure in noticed])
    return "\n".join(out + [""])


def html(context, manifest, names):
    title, warning, lines = title_of(context), warning_of(context), step_lines(context)
    out = ["<!DOCTYPE html>", '<html lang="en"><head><meta charset="utf-8"/><title>%s</title><style>%s</style></head><body>' % (
        escape(title), page.STYLE), "<h1>%s</h1>" % escape(title)]
    if warning:
        out.append('<p class="warning">%s</p>' % escape(warning))
    out.append(page.table(("", ""), facts_of(context, manifest, names).items()))
    if lines:
        out += ["<h2>A training step</h2>", "<p>%s</p>" % escape(_ABOUT_STEPS),
                page.table(STEP_HEADINGS, [_step_cells(context, line) for line in lines]),
                "<h2>Time of a step</h2>",
                page.time_bars(lines, ("predicted at the peaks", "every kernel at the peaks")),
                "<h2>Memory of the card</h2>", page.memory_bars(lines)]
    if any("times" in figure.parts for figure in context.kernels):
        out += ["<h2>Every kernel of these steps</h2>",
                "<p>The larger a dot, the larger its share of the step; hollow: bf16. Lines are what a product of 8192 x "
                "8192 and copies of 16 MiB and 1 GiB reached in the same processes.</p>"] + _rooflines(context)
    out += ["<h2>What was checked</h2>",
            page.table(OUTCOME_HEADINGS, [_outcome_cells(outcome) for outcome in _notable(context)])]
    for title, summary, noticed in kernel_tables(context):
        out += ["<h2>Kernels of %s</h2>" % escape(title), "<p>%s</p>" % escape(summary),
                page.table(KERNEL_HEADINGS, [_kernel_cells(figure) for figure in noticed])]
    return "\n".join(out + ["</body></html>", ""])


def _rooflines(context):
    rows = figures.rows_of([context.kernels], [])
    styles = {model: "m%d" % (i % 7) for i, model in enumerate(context.models)}
    legend = [(styles[model], model) for model in context.models]
    return ["<h3>Products, convolutions and attention</h3>", rooflines.arithmetic(rows, styles, legend),
            "<h3>All others</h3>", rooflines.memory(rows, styles, legend)]


def document(context, manifest, names):
    """All of it as JSON has it."""
    return {"title": title_of(context), "emulated": context.emulated, "manifest": manifest, "card": context.machine.card,
            "facts": facts_of(context, manifest, names),
            "outcomes": [outcome.__dict__ for outcome in context.outcomes], "steps": context.steps, "peers": context.peers,
            "predicted": context.predicted, "launches": context.launches, "kernels": [figure.__dict__ for figure in context.kernels]}


def write(folder, context, manifest, names):
    texts = {"report.json": json.dumps(document(context, manifest, names), indent=1) + "\n",
             "report.md": markdown(context, manifest, names), "report.html": html(context, manifest, names)}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
