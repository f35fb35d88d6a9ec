#!/bin/sh
# What is said of toolkits, good and bad ones, is checked anywhere. The rest only a machine with the CUDA toolkit can check, with or
# without a GPU: that all kernels compile for GPUs without a spill, and one that spills does not, that docs/cuda_kernels.md is true,
# that the emulation's numbers are NVIDIA's, and that NVIDIA's libraries are found.
set -eu
cd "$(dirname -- "$0")/.."
python3 ci/check_cuda_toolkit.py
nvcc=
for each in "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" "$(command -v nvcc || :)" /usr/local/cuda/bin/nvcc; do
  [ -n "$nvcc" ] || [ ! -x "$each" ] || nvcc=$each
done
skip() { echo "SKIPPED: $1, so nothing is built with --config=cuda"; exit 0; }
[ -n "$nvcc" ] || skip "no CUDA toolkit here"
"$nvcc" --version | grep -q 'release 13\.' || skip "$nvcc is not of CUDA 13"
# The links bazel-bin and its like stay those of the build before.
flags="--config=cuda --experimental_convenience_symlinks=ignore --color=no --curses=no --noshow_progress"
# shellcheck disable=SC2086
compiles() { ./bazelw build $flags "//ci/testdata/cuda_refusals:$1_nvcc" >"$said" 2>&1; }
refused() {
  ! compiles "$1" && grep -q "^ptxas error .*$2" "$said" || { echo "$1.cu.cc: expected an error of ptxas, \"$2\", got"; cat "$said"; exit 1; }
}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
compiles fits || { cat "$said"; exit 1; }
refused local_memory "Local memory used for function 'LocalMemory"
refused spills "Registers are spilled to local memory in function 'Spills"
# shellcheck disable=SC2086
./bazelw test $flags --test_tag_filters=cuda --build_tests_only //...
python3 ci/check_cuda_headers.py "$(dirname -- "$(dirname -- "$(readlink -f "$nvcc")")")"
python3 ci/cuda_kernels.py --check
