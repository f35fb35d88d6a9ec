"""Looks at a page without tabs, or at a picture (SVG), in a browser: a report, a plot."""
import pathlib
import re

import browser

WIDE, NARROW, HEIGHT = 1280, 420, 800  # pixels: an ordinary window, and a telephone or part of a window
NO_PROSE = re.compile(r"undefined|NaN|\[object|\bnull\b|\bNone\b|Infinity|\binf\b")


def check(page):
    """Returns what is wrong with the page, one line each. All that can be unfolded is."""
    wrong, picture = [], page.evaluate("document.documentElement.tagName") == "svg"
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    for dark, width in ((False, WIDE),) if picture else ((False, WIDE), (True, WIDE), (False, NARROW)):
        page.resize(width, HEIGHT)
        page.prefer(dark)
        page.settle()
        where = "in %s, %d pixels wide: " % ("dark" if dark else "light", width)
        wrong += [where + text for text in _look(page, picture)]
    return wrong + page.troubles


def _look(page, picture):
    text = page.evaluate("document.documentElement.textContent" if picture else "document.body.innerText")
    wrong = [] if len(text.strip()) > 20 else ["it is empty"]
    found = NO_PROSE.search(text)
    if found:
        wrong.append('it says "%s"' % text[max(0, found.start() - 30):found.end() + 30])
    if not picture:
        wrong += ["%s is empty" % name for name in page.evaluate("probe.emptyParts()")]
        beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if beyond > 0:
            wrong.append("it is %d pixels wider than the window" % beyond)
    return wrong + page.evaluate("probe.badTexts()")


def probe():
    """The script that a page needs before its own, for `check`."""
    return (pathlib.Path(__file__).resolve().parent / "page_probe.js").read_text(encoding="utf-8")


def check_file(path):
    """Returns what is wrong with the page of a file, and whether there was a browser to look at it."""
    if not browser.path():
        return [], False
    with browser.Browser() as chromium:
        return check(chromium.open(pathlib.Path(path).as_uri(), probe())), True
