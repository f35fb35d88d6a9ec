import os
import shutil
import unittest

from ci import check_javascript

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(check_javascript.__file__)))


class CheckJavascriptTest(unittest.TestCase):

    def test_scripts_of_a_folder_are_one_page(self):
        self.assertEqual(check_javascript.folders_of(["b/y.js", "a/z.js", "b/x.js"]), {"a": ["a/z.js"], "b": ["b/x.js", "b/y.js"]})

    def test_each_line_of_the_joined_script_knows_where_it_is_from(self):
        script, origins = check_javascript.joined({"a.js": "one\ntwo", "b.js": "three\n"})
        self.assertEqual(script, "one\ntwo\nthree\n")
        self.assertEqual(origins, [("a.js", 1), ("a.js", 2), ("b.js", 1)])

    def test_a_name_that_a_rename_left_behind_is_found_by_its_file_and_line(self):
        if not shutil.which("eslint"):
            print("SKIPPED: finding names in JavaScript: eslint is not on PATH")
            return
        good = {"a.js": "function sum(values) {\n  const owed = new Map(values);\n  return owed.size;\n}\n", "b.js": "sum([]);\n"}
        self.assertEqual(check_javascript.errors_of(_ROOT, good), [])
        renamed = {"a.js": good["a.js"].replace("return owed", "return partial"), "b.js": good["b.js"]}
        self.assertEqual(check_javascript.errors_of(_ROOT, renamed), [
            "a.js:2:9: 'owed' is assigned a value but never used. (no-unused-vars)",
            "a.js:3:10: 'partial' is not defined. (no-undef)",
        ])
        self.assertEqual(check_javascript.errors_of(_ROOT, {"a.js": "add();\n", "b.js": "const two = 2 +;\n"}),
                         ["b.js:1:16: Parsing error: Unexpected token ;"])


if __name__ == "__main__":
    unittest.main()
