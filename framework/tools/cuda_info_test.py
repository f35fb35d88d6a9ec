"""What cuda_info says, on a machine with GPUs and on one without."""

import os
import re
import subprocess
import unittest

_PROGRAM = "framework/tools/cuda_info"


def _run(**environment):
    return subprocess.run([_PROGRAM], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60)


class CudaInfoTest(unittest.TestCase):

    def test_names_runtime_cards_and_libraries(self):
        ran = _run(PATH=os.environ["PATH"], CUDA_HOME=os.environ.get("CUDA_HOME", ""))
        lines = ran.stdout.splitlines()
        print(ran.stdout)
        self.assertRegex(lines[0], r"^CUDA runtime 13\.\d+, \d+ MiB resident$")
        if ran.returncode == 0:
            self.assertRegex(lines[1], r"^card 0: .*, compute capability \d+\.\d, \d+ SMs, [\d.]+ GiB; a kernel: runs$")
        else:
            self.assertEqual(ran.returncode, 1, ran.stderr)
            self.assertRegex(lines[1], r"^(no CUDA device: the driver says: \w|card 0: )")
        for name, line in zip(["cuBLASLt", "cuDNN", "NCCL"], lines[-3:]):
            self.assertRegex(line, r"^%s [\d.]+ in /.*, opened in \d+ ms, \d+ MiB$" % name)

    def test_needs_no_library_of_cuda_to_start(self):
        needed = subprocess.run(["readelf", "-d", _PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("libc.so", needed)
        self.assertEqual(re.findall(r"lib(?:cuda|cublas|cudnn|nccl)\w*\.so[.\d]*", needed), [])


if __name__ == "__main__":
    unittest.main()
