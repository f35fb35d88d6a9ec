"""The pictures of the report's page in SVG: bars, points on logarithmic axes. Pure. Colors are page.py's classes."""

import math
from xml.sax.saxutils import escape

_LINE = 18


class Canvas:
    """Elements of one picture, in pixels from the top left."""

    def __init__(self, width):
        self.width, self.height, self._out = width, 0, []

    def add(self, element, y):
        self._out.append(element)
        self.height = max(self.height, y)

    def text(self, x, y, words, style="", anchor="start"):
        self.add('<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>' % (x, y, style, anchor, escape(words)),
                 y + 6)

    def bar(self, x, y, length, style, title=""):
        self.add('<rect x="%.1f" y="%.1f" width="%.1f" height="12" rx="2" class="%s"><title>%s</title></rect>' % (
            x, y - 10, max(1.0, length), style, escape(title)), y + 6)

    def line(self, x1, y1, x2, y2, style):
        self.add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>' % (x1, y1, x2, y2, style), max(y1, y2))

    def path(self, points, style):
        self.add('<polyline points="%s" class="%s"/>' % (" ".join("%.1f,%.1f" % point for point in points), style),
                 max(y for _, y in points))

    def dot(self, x, y, radius, style, title):
        self.add('<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"><title>%s</title></circle>' % (
            x, y, radius, style, escape(title)), y + radius)

    def svg(self):
        height = self.height + 8
        return '<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d">\n%s\n</svg>\n' % (
            self.width, height, "\n".join(self._out))


def bars(cases):
    """Groups of bars, each on a scale of its own, whose longest bar is as long as any other group's. `cases`: a list of
    (title, [(name, value, what is written behind it, style)], [(mark, name, style)]); a value of None has no bar, a
    mark is an upright line at a value."""
    names, length = 170, 470
    canvas = Canvas(900)
    y = 8
    for title, entries, marks in cases:
        y += _LINE
        canvas.text(0, y, title, "head")
        top = y + 4
        longest = max([value for _, value, _, _ in entries if value] + [mark for mark, _, _ in marks] + [1e-30])
        for name, value, words, style in entries:
            y += _LINE
            canvas.text(names - 8, y, name, "", "end")
            if value:
                canvas.bar(names, y, length * value / longest, style, "%s: %s" % (name, words))
            canvas.text(names + (length * value / longest if value else 0) + 6, y, words, "faint")
        for mark, _, style in marks:
            x = names + length * mark / longest
            canvas.line(x, top, x, y + 5, style)
        if marks:
            y += _LINE - 4
            canvas.text(names, y, "; ".join("%s: %s" % (style, name) for _, name, style in marks), "faint small")
        y += 8
    return canvas.svg()


class LogAxis:
    """A logarithmic axis from one place of the picture to another, a little wider than the values."""

    def __init__(self, values, begin, end):
        values = [value for value in values if value and value > 0] or [1.0]
        self.low, self.high = math.log10(min(values)) - 0.1, math.log10(max(values)) + 0.1
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        """Powers of ten, and 2 and 5 times them where few powers are in sight."""
        factors = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        return [factor * 10.0**power for power in powers for factor in factors
                if self.low <= math.log10(factor * 10.0**power) <= self.high]


def _short(value):
    for scale, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return "%g%s" % (value / scale, name)
    return "%g" % value


def scatter(points, curves, x_name, y_name, legend):
    """`points`: (x, y, weight in [0, 1], style, title), drawn the larger the more they weigh; `curves`: (name,
    [(x, y)], style); `legend`: (style, words). Both axes are logarithmic."""
    canvas = Canvas(900)
    left, right, top, bottom = 70, 700, 16, 400
    x = LogAxis([a for a, _, _, _, _ in points], left, right)
    # Curves come from far below; what counts is how high they are.
    y = LogAxis([b for _, b, _, _, _ in points] + [max(b for _, b in line) for _, line, _ in curves], bottom, top)
    for value in x.ticks():
        canvas.line(x.at(value), top, x.at(value), bottom, "grid")
        canvas.text(x.at(value), bottom + 16, _short(value), "faint", "middle")
    for value in y.ticks():
        canvas.line(left, y.at(value), right, y.at(value), "grid")
        canvas.text(left - 6, y.at(value) + 4, _short(value), "faint", "end")
    canvas.text((left + right) / 2, bottom + 36, x_name, "", "middle")
    canvas.text(left - 56, top - 4, y_name)
    taken, slopes = [], []
    for name, line, style in curves:
        line = _clipped(line, x, y)
        if not line:
            continue
        path = [(x.at(a), y.at(b)) for a, b in line]
        canvas.path(path, style)
        if path[-1][0] < right - 1:  # a slope, which ends where arithmetic binds
            slopes.append((path[-1], path[0], name))
            continue
        end = path[-1][1]
        while any(abs(end - other) < 13 for other in taken):
            end += 13
        taken.append(end)
        canvas.text(right + 6, end + 4, name, "faint small")
    _name_slopes(canvas, sorted(slopes))
    for a, b, weight, style, title in sorted(points, key=lambda point: -point[2]):
        canvas.dot(x.at(a), y.at(b), 2.5 + 9 * math.sqrt(weight), style, title)
    apart = min(125, (canvas.width - left) // max(1, len(legend)))
    for i, (style, words) in enumerate(legend):
        canvas.dot(left + 8 + apart * i, bottom + 56, 5, style, words)
        canvas.text(left + 18 + apart * i, bottom + 60, words)
    return canvas.svg()


def _name_slopes(canvas, slopes):
    """Of `slopes`, (top, foot, name) from left to right, the first has its name on its left and the others on their
    right and lower, where fewer dots are: slopes end at one height, often closer together than their names are long."""
    for i, ((x, y), (foot_x, foot_y), name) in enumerate(slopes):
        down = 0.4 + 0.06 * i if i else 0.1  # of the way to the foot
        canvas.text(x + (foot_x - x) * down + (12 if i else -8), y + (foot_y - y) * down, name, "faint small",
                    "start" if i else "end")


def _clipped(line, x, y):
    """The part of a curve, straight between its points on logarithmic axes, that is within x's range, not below y's."""
    low, high = 10.0**x.low, 10.0**x.high
    out = []
    for (a, b), (c, d) in zip(line, line[1:]):
        if c <= low or a >= high:
            continue
        slope = (math.log(d) - math.log(b)) / (math.log(c) - math.log(a))

        def at(place, a=a, b=b, slope=slope):
            return b * (place / a)**slope

        begin, end = max(a, low), min(c, high)
        floor = 10.0**y.low
        if slope > 0 and at(begin) < floor < at(end):
            begin = a * (floor / b)**(1 / slope)
        elif max(at(begin), at(end)) < floor:
            continue
        out += [(begin, at(begin)), (end, at(end))]
    return out
