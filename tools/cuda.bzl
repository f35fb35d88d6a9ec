"""CUDA kernels: compiled by nvcc with --config=cuda, else as C++ that the emulation runs with every access checked."""

load("//tools:sluice.bzl", "sluice_cc_library")

# gcc then calls a function for each access of a kernel, which the emulation defines
# (framework/testing/cuda_emulation). No contraction into fused multiply-adds: the bits of a CPU are owed.
EMULATION_COPTS = ["-O2", "-ffp-contract=off", "-fsanitize=thread,alignment,bounds,signed-integer-overflow"]

def sluice_cuda_library(name, srcs, **kwargs):
    """A library of kernels, files that end in .cu.cc."""
    sluice_cc_library(
        name = name,
        srcs = srcs,
        copts = EMULATION_COPTS,
        **kwargs
    )
