#!/bin/sh
# What only a machine with the CUDA toolkit can check, with or without a GPU: that all kernels compile for GPUs without a spill,
# that docs/cuda_kernels.md is true, that the emulation's numbers are NVIDIA's, and that NVIDIA's libraries are found.
set -eu
cd "$(dirname -- "$0")/.."
nvcc=
for each in "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" "$(command -v nvcc || :)" /usr/local/cuda/bin/nvcc; do
  [ -n "$nvcc" ] || [ ! -x "$each" ] || nvcc=$each
done
skip() { echo "SKIPPED: $1, so nothing is built with --config=cuda"; exit 0; }
[ -n "$nvcc" ] || skip "no CUDA toolkit here"
"$nvcc" --version | grep -q 'release 13\.' || skip "$nvcc is not of CUDA 13"
# The links bazel-bin and its like stay those of the build before.
./bazelw test --config=cuda --test_tag_filters=cuda --build_tests_only --experimental_convenience_symlinks=ignore \
  --color=no --curses=no --noshow_progress //...
python3 ci/check_cuda_headers.py "$(dirname -- "$(dirname -- "$(readlink -f "$nvcc")")")"
python3 ci/cuda_kernels.py --check
