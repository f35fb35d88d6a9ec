import unittest

from ci import check_headers


class CheckHeadersTest(unittest.TestCase):

    def test_only_the_first_include_is_proof(self):
        sources = {
            "log.cc": '// text\n#include "framework/base/log.h"\n\n#include "framework/base/text.h"\n',
            "queue.cc": '#include <vector>\n\n#include "framework/base/queue.h"\n',
            "x.cc": "int x;\n",
            "divisor_test.cc": '#include "framework/base/divisor.h"\n',
        }
        self.assertEqual(check_headers.proven_by_the_build(sources), {"framework/base/log.h"})


if __name__ == "__main__":
    unittest.main()
