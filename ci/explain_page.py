"""Goes through every tab of a page that --explain_html wrote, of each program, in a browser. What a tab must show is counted
here anew from the page's JSON. Of the first program the tabs are also looked at in dark and in a narrow window, and used as a
reader uses them: with pointer, wheel, keys, search and clicks.
"""
import json
import os
import re
from decimal import ROUND_HALF_UP, Decimal
from urllib.parse import quote

import browser
from static_page import HEIGHT, NARROW, WIDE

TABS = ("overview", "timeline", "memory", "graph", "ops", "boxings", "waits", "variables")
PANELS = ("What the step spends its time on", "Who waits for whom", "Which boxings cost most", "What makes the memory peak",
          "Which ops", "Which part of the model", "Where there was a choice")
_CANVASES = ("timeline", "memory", "graph")
_TABLES = ("ops", "boxings", "waits", "variables")
_PHASES = ("forward", "backward", "update")
# No sentence has one of these: values that are none, and names of the program's variables.
_NO_PROSE = re.compile(r"undefined|NaN|\[object|\bnull\b|Infinity|reuse_edge")


def data_of(path):
    """What the page knows, by its JSON; None of another page."""
    with open(path, encoding="utf-8") as file:
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.DOTALL)
    return json.loads(found.group(1)) if found else None


def check(page, data, use=True, pictures=None):
    """Returns what is wrong with the page, one line each. `use`: whether the first program's tabs are used as well as looked
    at; `pictures`: the beginning of the names of files that get a picture of each tab."""
    wrong = _take_troubles(page, "as it opens")
    shown = page.evaluate("[...document.querySelectorAll('#tabs button')].map((tab) => tab.innerText)")
    if shown != list(TABS):
        wrong.append("tabs: expected %s, got %s" % (", ".join(TABS), ", ".join(shown)))
    for number, program in enumerate(data["programs"]):
        for tab in TABS:
            wrong += _Tab(page, data, program, tab).check(use and number == 0, pictures)
    return list(dict.fromkeys(wrong))  # what is wrong with a tab is often seen by several looks at it


def _take_troubles(page, where):
    found = ["%s: %s" % (where, trouble) for trouble in page.troubles]
    page.troubles.clear()
    return found


class _Tab:
    """One tab of one program."""

    def __init__(self, page, data, program, tab):
        self.page, self.data, self.program, self.tab = page, data, program, tab
        self.facts = Facts(data, program)
        self.where = "%s of program %s" % (tab, program["name"])
        self.wrong = []

    def check(self, use, pictures):
        for theme, width in (("light", WIDE), ("dark", WIDE), ("light", NARROW)) if use else (("light", WIDE),):
            self.page.resize(width, HEIGHT)
            self.show(theme)
            self.look(theme, width)
            if pictures:
                self.page.picture("%s-%s-%s-%s-%d.png" % (pictures, self.program["name"], self.tab, theme, width))
        if use:
            self.page.resize(WIDE, HEIGHT)
            self.show("light")
        try:
            getattr(self, "expect_" + self.tab)()
            if use:
                self.use()
        except browser.Error as error:  # of a page that lacks what is looked for
            self.expect(False, str(error))
        return self.wrong

    def expect(self, true, text):
        if not true:
            self.wrong.append("%s: %s" % (self.where, text))

    def heard(self, doing):
        """What went wrong in the page since this was asked last."""
        self.wrong += _take_troubles(self.page, "%s, %s" % (self.where, doing))

    def show(self, theme="light", **more):
        """Opens the tab as an address does."""
        state = {"program": self.program["name"], "tab": self.tab, "theme": theme, **more}
        address = "&".join("%s=%s" % (key, quote(value)) for key, value in state.items())
        self.page.evaluate("history.replaceState(null, '', '#' + %s); dispatchEvent(new HashChangeEvent('hashchange'))" %
                           json.dumps(address))
        self.page.settle()

    def look(self, theme, width):
        """What holds of every tab: it shows something, all of it words that mean something, within the window."""
        seen, where = self.seen(), "in %s, %d pixels wide" % (theme, width)
        self.expect(not seen["tip"], "it shows a tip of the tab before " + where)
        self.heard(where)
        if self.tab in _CANVASES:
            self.expect(len(seen["drawn"]) >= 3 and min(seen["colors"], default=0) >= 4, "nothing is drawn " + where)
            self.expect(seen["height"] > 300, "%d pixels high %s" % (seen["height"], where))
        else:
            self.expect(len(seen["text"].strip()) > 40, "it is empty " + where)
        self.expect(seen["beyond"] <= 0, "%d pixels wider than the window %s" % (seen["beyond"], where))

    def seen(self):
        seen = self.page.evaluate("probe.seen()")
        for text in [seen["text"], seen["side"], seen["tip"]] + seen["drawn"]:
            found = _NO_PROSE.search(text)
            self.expect(not found, 'it says "%s"' % text[max(0, found.start() - 30):found.end() + 30] if found else "")
        return seen

    def do(self, what, script):
        """Runs a script that acts as a reader, and looks at what comes of it."""
        self.page.evaluate("{%s; undefined}" % script)
        self.page.settle()
        self.seen()
        self.heard(what)

    def click(self, selector, text=None):
        found = self.page.evaluate("probe.click(%s, %s)" % (json.dumps(selector), json.dumps(text)))
        self.page.settle()
        self.heard("at a click on %s" % (text or selector))
        self.seen()
        return found

    # What each shows.

    def expect_overview(self):
        cards = {label: (value, note) for label, value, note in self.page.evaluate(
            "[...document.querySelectorAll('.card')].map((card) => [...card.children].map((line) => line.innerText))")}
        facts, program = self.facts, self.program
        expected = {
            "predicted step": (time_of(program["step_nanoseconds"]), None),
            "measured step": (time_of(facts.median_step) if facts.measured else "\u2013", None),
            "moved between devices": (bytes_of(sum(b[6] * b[7] for b in program["boxings"])),
                                      "%s boxings a step" % count_of(len(program["boxings"]))),
            "largest device": (bytes_of(max(d["variables"] + d["packed"] for d in program["devices"])), None),
            "devices": (count_of(len(self.data["devices"])), None),
            "plan": ("%s ops" % count_of(len(facts.ops)), "%s actors, %s registers, %s reuse edges" % (
                count_of(len(program["actors"])), count_of(program["registers"]), count_of(program["reuse_edges"]))),
        }
        self.expect(set(cards) == set(expected), "expected cards %s, got %s" % (sorted(expected), sorted(cards)))
        for label, (value, note) in expected.items():
            got = cards.get(label, ("", ""))
            self.expect(value == got[0] and note in (None, got[1]), "card %s: expected %s, got %s" % (
                label, (value, note or "any"), got))
        panels = self.page.evaluate(
            "[...document.querySelectorAll('.panel')].map((panel) => [panel.querySelector('h3').innerText, "
            "panel.querySelectorAll('tr').length, panel.innerText])")
        self.expect([title for title, _, _ in panels] == list(PANELS), "expected panels %s, got %s" % (
            PANELS, [title for title, _, _ in panels]))
        for title, rows, text in panels:
            nothing = re.search(r"Nothing waits\.|None: everything is where|left one signature for each", text)
            self.expect(rows or nothing, "panel %s is empty" % title)
        longest = max((wait[2] for wait in facts.waits), default=0)
        steps = len(program["measured"]["steps"]) if facts.measured else 1
        self.expect_first_number("Who waits for whom", time_of(longest / steps) if longest else None)
        costliest = max((boxing[8] for boxing in program["boxings"]), default=None)
        self.expect_first_number("Which boxings cost most", None if costliest is None else time_of(costliest))
        for warning in program["warnings"]:
            self.expect(warning in self.page.evaluate("probe.seen().text"), "expected the warning: " + warning)

    def expect_first_number(self, title, expected):
        """The number in the first row of a panel, which has none where `expected` is None."""
        got = self.page.evaluate(
            "(() => { for (const panel of document.querySelectorAll('.panel')) if (panel.querySelector('h3').innerText === "
            "%s) { const cell = panel.querySelector('td.number'); return cell && cell.innerText.split('\\n')[0]; } })()"
            % json.dumps(title))
        self.expect(got == expected, "panel %s: expected %s in the first row, got %s" % (title, expected, got))

    def expect_timeline(self):
        drawn = self.seen()["drawn"]
        device = next(i for i, each in enumerate(self.program["devices"]) if each["representative"] == i)
        self.expect(any(text.startswith("device %d" % device) for text in drawn), "no header of device %d" % device)
        for stream, kind, spans in self.program["streams"]:
            if stream == device and spans:
                kind = self.data["strings"][kind]
                self.expect(kind in drawn, "no lane of stream %s" % kind)
        self.expect(any(re.fullmatch(r"[\d.]+ (ns|\u00b5s|ms|s)", text) for text in drawn), "no times on the axis")
        if self.facts.measured:
            self.expect(any("measured" in text for text in drawn), "no measured lane")

    def expect_memory(self):
        device = max((each for i, each in enumerate(self.program["devices"]) if each["representative"] == i),
                     key=lambda each: each["packed"])
        expected = "peak %s at %s" % (bytes_of(device["live"]), time_of(device["peak_time"]))
        drawn = self.seen()["drawn"]
        self.expect(expected in drawn, 'expected "%s" on the canvas, got %s' % (expected, drawn[:6]))
        listed = self.page.evaluate("[...document.querySelectorAll('.blocks')].map((list) => list.children.length)")
        variables = sum(block[1] <= 1 for block in device["memory"])
        self.expect(listed == [len(device["peak"]), min(6, variables)], "expected lists of %d and %d, got %s" % (
            len(device["peak"]), min(6, variables), listed))

    def expect_graph(self):
        drawn = self.seen()["drawn"]
        for stage in sorted({op[3] for op in self.facts.ops}):
            self.expect(any(text.startswith("stage %d on device" % stage) for text in drawn), "no title of stage %d" % stage)
        blocks = {self.data["strings"][op[0]].split("/")[0] for op in self.facts.ops}
        self.expect(blocks & set(drawn), "no name of a part of the model")
        # What is searched is looked at from near, with its ops' names.
        op = self.facts.ops[len(self.facts.ops) // 2]
        self.show(q=self.data["strings"][op[0]])
        self.expect(len(self.seen()["drawn"]) > 3, "nothing is drawn at a search for an op")

    def expect_ops(self):
        self.expect_rows(len(self.facts.ops))
        times = self.facts.op_times
        most = max(times.values())
        names = {self.data["strings"][self.program["ops"][node][0]] for node, value in times.items() if value == most}
        row = self.first_row()
        self.expect(row[:1] and row[0] in names and time_of(most) in row, "expected %s of %s first, got %s" % (
            time_of(most), " or ".join(sorted(names)), row))

    def expect_boxings(self):
        boxings = self.program["boxings"]
        self.expect_rows(len(boxings))
        if boxings:
            most = time_of(max(boxing[8] for boxing in boxings))
            self.expect(most in self.first_row(), "expected %s first, got %s" % (most, self.first_row()))

    def expect_waits(self):
        self.expect_rows(len(self.facts.waits))
        if self.facts.waits:
            _, what, total, count = max(self.facts.waits, key=lambda wait: wait[2])
            row = self.first_row()
            self.expect(row[1:2] == [what] and time_of(total) in row and str(count) in row, "expected %s, %s, %d times first, got %s" % (
                what, time_of(total), count, row))

    def expect_variables(self):
        self.expect_rows(len(self.data["variables"]))
        names = [self.data["strings"][variable[0]] for variable in self.data["variables"]]
        shown = [row[0] for row in self.page.evaluate("probe.rows('tbody tr:not(.space)')")]
        self.expect(shown and set(shown) <= set(names), "shows %s" % shown[:3])

    def expect_rows(self, count):
        text = self.page.evaluate("document.querySelector('.toolbar .muted').innerText")
        self.expect(text == "%s rows" % count_of(count), 'expected "%s rows", got "%s"' % (count_of(count), text))
        shown = self.page.evaluate("probe.rows('tbody tr:not(.space)').length")
        self.expect(shown >= min(count, 20), "%d of %d rows are shown" % (shown, count))

    def first_row(self):
        return self.page.evaluate("probe.rows('tbody tr:not(.space)')[0] || []")

    # What a reader does with it.

    def use(self):
        if self.tab in _CANVASES:
            self.use_canvas()
        elif self.tab in _TABLES:
            self.use_table()
        else:
            for panel in range(len(PANELS)):
                for row in ("0", "rows.length - 1"):
                    self.show()
                    self.do("at a click on a row of %s" % PANELS[panel], "const rows = document.querySelectorAll('.panel')[%d]."
                            "querySelectorAll('tr.link'); if (rows.length) rows[%s].click()" % (panel, row))
        self.show()
        for name in self.page.evaluate("[...document.querySelectorAll('main input[type=checkbox]')].map((_, i) => i)"):
            for _ in range(2):
                self.do("at checkbox %d" % name, "document.querySelectorAll('main input[type=checkbox]')[%d].click()" % name)
        choices = self.page.evaluate("[...document.querySelectorAll('main select option')].map((each) => each.value)")
        for choice in choices[:3] + choices[-1:]:
            self.do("at the choice %s" % choice, "const choice = document.querySelector('main select'); choice.value = %s; "
                    "choice.dispatchEvent(new Event('change'))" % json.dumps(choice))
        self.show(q="h")
        self.show(q="no such name")
        self.seen()
        self.heard("at a search")

    def use_canvas(self):
        tips = self.page.evaluate("probe.sweep(24)")
        self.heard("as the pointer moves")
        self.expect(tips, "no tip wherever the pointer is")
        for tip in tips:
            self.expect(not _NO_PROSE.search(tip), 'a tip says "%s"' % tip)
        box = self.page.evaluate("(({x, y, width, height}) => [x, y, width, height])("
                                 "document.querySelector('main canvas').getBoundingClientRect())")
        x, y = box[0] + box[2] * 0.45, box[1] + box[3] * 0.4
        before = self.seen()["drawn"]
        self.page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-600)
        self.page.settle()
        self.expect(self.seen()["drawn"] != before, "the wheel changes nothing")
        self.page.drag(x, y, x + 80, y + 40)
        for key in ("+", "-", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "0"):
            self.page.evaluate("document.querySelector('main canvas').focus()")
            self.page.key(key)
        self.page.click(x, y)
        self.page.settle()
        self.seen()
        self.heard("at wheel, drag, keys and a click")
        self.show()
        self.click(".toolbar button", "show all")

    def use_table(self):
        for column in self.page.evaluate("[...document.querySelectorAll('thead th')].map((_, i) => i)"):
            self.do("sorted by column %d" % column, "document.querySelectorAll('thead th')[%d].click()" % column)
        self.do("at its end", "const table = document.querySelector('.table'); table.scrollTop = table.scrollHeight")
        self.show()
        if not self.click("tbody tr:not(.space)") or self.tab == "waits":
            return
        side = self.seen()["side"]
        self.expect(side.strip(), "a click on a row opens nothing")
        self.click("aside a")
        for tab in _CANVASES:
            self.click(".show button", tab)
            self.expect(self.page.evaluate("document.querySelector('nav [aria-selected=true]').innerText") == tab,
                        "the button %s does not go there" % tab)
        self.page.key("Escape")
        self.page.settle()
        self.expect(not self.seen()["side"], "Escape does not close what is selected")


class Facts:
    """What the tabs of a program must show, counted anew from the page's JSON."""

    def __init__(self, data, program):
        strings = data["strings"]
        self.measured = program.get("measured")
        self.ops = [op for op in program["ops"] if strings[op[1]] not in ("variable", "input")]
        if self.measured:
            steps = self.measured["steps"]
            usual = sorted(steps[2:] if len(steps) > 2 else steps)
            self.median_step = usual[len(usual) // 2]
        self.op_times = self._op_times(program)
        self.waits = self._waits(strings, program)  # (actor, what, nanoseconds, times)

    def _op_times(self, program):
        """Nanoseconds a step by node, on the device of a class that it takes most of; of nodes of which there are any."""
        mean = {(actor, at): total for actor, at, total, *_ in self.measured["instructions"]} if self.measured else {}
        sums = {}
        for number, (_, device, _, firings, _, script) in enumerate(program["actors"]):
            for at, instruction in enumerate(script):
                node, time = instruction[2], mean.get((number, at), 0) if self.measured else instruction[8]
                if node >= 0:
                    sums[device, node] = sums.get((device, node), 0) + time * firings
        times = {}
        for (_, node), time in sums.items():
            times[node] = max(times.get(node, 0), time)
        return times

    def _waits(self, strings, program):
        if self.measured:
            return [(actor, strings[what], total, count) for actor, what, _, total, count in self.measured["debts"]]
        waits = {}
        for _, kind, spans in program["streams"]:
            end = 0
            for span in spans if strings[kind] == "compute" else ():
                actor, begin, length = span[0], span[3], span[4]
                if begin > end and len(span) > 5:
                    total, count = waits.get((actor, span[5], span[6]), (0, 0))
                    waits[actor, span[5], span[6]] = total + begin - end, count + 1
                end = max(end, begin + length)
        return [(actor, strings[what], total, count) for (actor, what, _), (total, count) in waits.items()]


def _fixed(value, digits):
    """As JavaScript's toFixed: of two that are as near the larger."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def time_of(nanoseconds):
    for unit, name, digits in ((1e9, "s", ((0, 2),)), (1e6, "ms", ((100, 0), (10, 1), (0, 2))), (1e3, "\u00b5s", ((100, 0), (0, 1)))):
        if nanoseconds >= unit:
            return "%s %s" % (_fixed(nanoseconds / unit, next(d for least, d in digits if nanoseconds >= least * unit)), name)
    return "%s ns" % _fixed(nanoseconds, 0)


def bytes_of(count):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return "%s %s" % (_fixed(count, 0 if units[0] == "B" or count >= 100 else 1 if count >= 10 else 2), units[0])


def count_of(number):
    return f"{number:,}"


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]
