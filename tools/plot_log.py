"""Draws what a run's log says as a picture: the loss of every step, smoothed, and what was held out.

  bazel run //tools:plot_log -- runs/<time>/log.jsonl --out=curve.svg

Every metric of the evaluations (loss, accuracy) is a line of its own; losses share the left axis, all else, shares of 1 as a
rule, the right one. Values of the subset that is evaluated during training (val_subset_loss) are hollow dots that a line joins,
values of everything that was held out (val_loss) filled ones, and those of a part of it after the last step (val_final_loss)
hollow ones: they are of other samples, and no line joins the kinds. The SVG needs nothing else and has no colors that a dark page hides.
"""

import argparse
import json
import math
import os
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 56, 56, 40, 40
COLORS = ("#4878a8", "#c44e52", "#4a9a5a", "#8a62b0", "#b07830", "#3f9aa5")
SUBSET, FINAL, ALL = "val_subset_", "val_final_", "val_"  # in the log, before the name of a metric
_COUNT = "samples"  # and before how many samples the values are of


class Error(Exception):
    """What went wrong, in one line."""


def _name(key):
    """The metric that a key of the log has values of; "" of none."""
    return next((key.removeprefix(kind) for kind in (SUBSET, FINAL, ALL) if key.startswith(kind)), "")


def read(path):
    """(losses, metrics): pairs (step, value) of the training loss, and of each held-out metric by name."""
    losses, metrics = [], {}
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    record = json.loads(line)
                    step = record["step"]
                except (ValueError, TypeError, KeyError) as error:
                    raise Error("%s:%d: expected a line of a run's log, got %.40r" % (path, number, line)) from error
                if isinstance(record.get("loss"), (int, float)):
                    losses.append((step, record["loss"]))
                for key, value in record.items():
                    if _name(key) not in ("", _COUNT) and isinstance(value, (int, float)):
                        metrics.setdefault(key, []).append((step, value))
    except OSError as error:
        raise Error("%s: %s" % (path, error.strerror)) from error
    if not losses:
        raise Error("%s: expected at least one step with a loss" % path)
    return losses, metrics


def smooth(points):
    """Means over windows of a hundredth of the run, so that the line is seen and not its noise."""
    window = max(1, len(points) // 100)
    groups = [points[i:i + window] for i in range(0, len(points), window)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def ticks(low, high):
    """Some five round values of a range."""
    rough = (high - low) / 5 or 1
    power = 10**math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


class Axis:
    """From values to places on the picture."""

    def __init__(self, values, begin, end):
        self.low, self.high = min(values), max(values)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def _text(x, y, text, anchor="middle", color="#808080"):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>' % (x, y, anchor, color, text)


def _line(points, x, y, color):
    path = " ".join("%.1f,%.1f" % (x.at(step), y.at(value)) for step, value in points)
    return ['<polyline fill="none" stroke="%s" stroke-width="1.6" points="%s"/>' % (color, path)]


def _dots(points, x, y, color, fill):
    return ['<circle cx="%.1f" cy="%.1f" r="2.6" stroke="%s" fill="%s"/>' % (x.at(step), y.at(value), color, fill)
            for step, value in points]


def _legend(names, metrics):
    """The names of the lines in rows of four, and what the dots mean where both kinds are there."""
    labels = list(names)
    if any(key.startswith((SUBSET, FINAL)) for key in metrics):
        labels.append("\u25cb of a subset  \u25cf of all")
    colors = [COLORS[number % len(COLORS)] for number in range(len(names))] + ["#808080"]
    return [_text(LEFT + 8 + 150 * (number % 4), TOP - 12 + 13 * (number // 4), label, "start", color)
            for number, (label, color) in enumerate(zip(labels, colors))]


def draw(losses, metrics, title):
    names = sorted({_name(key) for key in metrics})
    values = {True: [value for _, value in losses], False: []}
    for key, points in metrics.items():
        values[key.endswith("loss")] += [value for _, value in points]
    steps = [step for points in [losses, *metrics.values()] for step, _ in points]
    top = TOP + 13 * ((len(names) + 1) // 4)  # below the legend
    x = Axis(steps, LEFT, WIDTH - RIGHT)
    left = Axis([0] + values[True], HEIGHT - BOTTOM, top)
    right = Axis([0, 1] + values[False], HEIGHT - BOTTOM, top)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">'
           % (WIDTH, HEIGHT), _text(WIDTH / 2, 14, title)]
    for value in ticks(left.low, left.high):
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#808080" stroke-opacity="0.25"/>'
                   % (LEFT, WIDTH - RIGHT, left.at(value), left.at(value)))
        out.append(_text(LEFT - 6, left.at(value) + 4, "%g" % value, "end"))
    if values[False]:
        out += [_text(WIDTH - RIGHT + 6, right.at(value) + 4, "%g" % value, "start")
                for value in ticks(right.low, right.high)]
    out += [_text(x.at(value), HEIGHT - BOTTOM + 16, "%g" % value) for value in ticks(x.low, x.high)]
    out.append(_text(WIDTH / 2, HEIGHT - 6, "step"))
    out += _line(smooth(losses), x, left, COLORS[0])
    for number, name in enumerate(names, 1):
        color, y = COLORS[number % len(COLORS)], left if name.endswith("loss") else right
        subset, whole = metrics.get(SUBSET + name, []), metrics.get(ALL + name, [])
        if subset:
            out += _line(subset, x, y, color) + _dots(subset, x, y, color, "none")
        elif whole:
            out += _line(whole, x, y, color)
        out += _dots(whole, x, y, color, color) + _dots(metrics.get(FINAL + name, []), x, y, color, "none")
    out += _legend(["loss"] + ["held-out " + name for name in names], metrics)
    return "\n".join(out + ["</svg>", ""])


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("log", help="log.jsonl of a run")
    parser.add_argument("--out", required=True, help="the picture, .svg")
    parser.add_argument("--title", default="")
    options = parser.parse_args(arguments)
    folder = os.environ.get("BUILD_WORKING_DIRECTORY")
    if folder:
        os.chdir(folder)
    try:
        picture = draw(*read(options.log), options.title)
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(picture)
    except Error as error:
        print("plot_log: %s" % error, file=sys.stderr)
        return 1
    except OSError as error:
        print("plot_log: %s: %s" % (options.out, error.strerror), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
