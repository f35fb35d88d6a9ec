import unittest

from ci import check_headers


class CheckHeadersTest(unittest.TestCase):

    def test_only_the_first_include_is_proof(self):
        sources = [
            '// text\n#include "framework/base/log.h"\n\n#include "framework/base/text.h"\n',
            '#include <vector>\n\n#include "framework/base/queue.h"\n',
            "int x;\n",
        ]
        self.assertEqual(check_headers.proven_by_the_build(sources), {"framework/base/log.h"})


if __name__ == "__main__":
    unittest.main()
