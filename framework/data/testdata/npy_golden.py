"""Writes npy/ beside this file with NumPy 2.4, and reads what ours wrote.

  python3 npy_golden.py write          arrays of 0, 1, 2, .., of many types, orders and versions
  python3 npy_golden.py read FILE      prints the arrays of a .npy or .npz
"""

import os
import sys

import numpy

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "npy")


def counted(dtype, shape=(2, 3), order="C"):
    return numpy.arange(numpy.prod(shape, dtype=int)).astype(dtype).reshape(shape).copy(order=order)


def write_npy(name, array, version=None):
    with open(os.path.join(FOLDER, name + ".npy"), "wb") as file:
        numpy.lib.format.write_array(file, array, version=version, allow_pickle=True)


def write():
    write_npy("f4", counted("<f4"))
    write_npy("f4_version_2", counted("<f4"), (2, 0))
    write_npy("f4_version_3", counted("<f4"), (3, 0))
    write_npy("i8_fortran", counted("<i8", (2, 3, 4), "F"))
    write_npy("i4_big", counted(">i4"))
    write_npy("c8_big_fortran", counted(">c8", order="F"))
    write_npy("f8_scalar", counted("<f8", ()))
    write_npy("u1_empty", counted("u1", (3, 0, 2)))
    write_npy("u2_vector", counted("<u2", (5,)))
    write_npy("b1", counted("bool"))
    write_npy("object", numpy.array([{}], dtype=object))
    write_npy("text", numpy.array(["abc"]))
    write_npy("record", numpy.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
    both = {"images": counted("u1", (2, 2, 2)), "labels": counted("<i8", (2,))}
    numpy.savez(os.path.join(FOLDER, "stored.npz"), **both)
    numpy.savez_compressed(os.path.join(FOLDER, "deflated.npz"), **both)


def read(path):
    loaded = numpy.load(path)
    for name, array in (loaded.items() if path.endswith(".npz") else (("", loaded),)):
        print(name, array.dtype, array.shape, array.ravel()[:8])


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    write() if sys.argv[1] == "write" else read(sys.argv[2])
