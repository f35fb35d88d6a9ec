"""What is planted into pages is found by a look at them in a browser."""
import pathlib
import tempfile
import unittest

import browser
import static_page

_GOOD = "<h2>Times of a step</h2><p>They are medians.</p><table><tr><td>GPT</td><td>1.5 ms</td></tr></table>"
_SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 100" font-size="12">%s</svg>'


class StaticPageTest(unittest.TestCase):

    def wrong(self, body, name="page.html"):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_text(body if name.endswith(".svg") else "<!doctype html><body>%s</body>" % body, encoding="utf-8")
            page = self.chromium.open(path.as_uri(), static_page.probe())
            try:
                return "\n".join(static_page.check(page))
            finally:
                page.close()

    def test_each_fault_is_named(self):
        if not browser.path():
            print("SKIPPED: faults of pages in a browser: no chromium is on PATH")
            return
        faults = (("<script>(() => { missing(); })();</script>", "exception: ReferenceError: missing is not defined"),
                  ("<script>setTimeout(() => { throw new TypeError('late'); })</script>", "exception: TypeError: late"),
                  ("<script>console.warn('odd', 2)</script>", "console.warning: odd 2"),
                  ('<img src="http://127.0.0.1:9/a.png">', "network: asks for http://127.0.0.1:9/a.png"),
                  ("<p>of NaN steps</p>", 'it says "'),
                  ("<details><summary>more</summary>undefined</details>", 'it says "'),
                  ("<h2>Memory</h2>", 'what follows "Memory" is empty'),
                  ("<table></table>", "a TABLE is empty"),
                  ('<div style="width: 2000px">wide</div>', "pixels wider than the window"),
                  (_SVG % '<text x="10" y="20">one text</text><text x="14" y="22">another</text>', "lie on each other"),
                  (_SVG % '<text x="280" y="20">much too long</text>', '"much too long" reaches over the edge'))
        with browser.Browser() as self.chromium:
            self.assertEqual(self.wrong(_GOOD), "")
            self.assertIn("it is empty", self.wrong(""))
            for fault, expected in faults:
                self.assertIn(expected, self.wrong(_GOOD + fault))
            picture = _SVG % '<text x="10" y="20">a text of some length, far from all edges</text>'
            self.assertEqual(self.wrong(picture, "picture.svg"), "")
            self.assertIn("NaN", self.wrong(picture.replace("some", "NaN"), "picture.svg"))
            with self.assertRaisesRegex(browser.Error, "ReferenceError: nobody is not defined"):
                self.chromium.open("about:blank").evaluate("nobody()")


if __name__ == "__main__":
    unittest.main()
