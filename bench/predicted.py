"""What is predicted of GPUs, kept in bench/predicted as the programs beside print it.

    ./bazelw run //bench:predicted                 # after a change of what steps or kernels cost: writes the tables anew
    ./bazelw test //bench:predicted_test           # says which steps the tables have otherwise
    ./bazelw test //bench:predicted_kernels_test   # and which kernels

The tables of steps, by card, are what `ci/gpu` holds measured steps against, so each is in version control as it was
before anybody measured: a prediction that is made afterwards is none. That of kernels is what ci/cuda_kernels.py puts
beside what the compiler says of them.
"""

import os
import pathlib
import subprocess
import sys

FOLDER = "bench/predicted"
_COMMAND = "./bazelw run //bench:predicted"
# By name of the table: the program that prints it, and what the columns are.
_STEPS = "bench/gpu_steps"
_KERNELS = "bench/gpu_kernel_bounds"
PROGRAMS = {
    "h100": [_STEPS, "--gpu=h100"],
    "h200": [_STEPS, "--gpu=h200"],
    "a100": [_STEPS, "--gpu=a100"],
    "kernels": [_KERNELS],
}
_COLUMNS = {
    _STEPS: "[bench/README.md](../README.md#what-a-gpu-could-do-at-most)",
    _KERNELS: "[cuda_kernels.md](../../docs/cuda_kernels.md)",
}


def table(name):
    """The text of a table, as its program prints it now."""
    program = PROGRAMS[name]
    ran = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True)
    return (f"Written by `{_COMMAND}`; nothing of this is measured. What the columns are: "
            f"{_COLUMNS[program[0]]}.\n\n{ran.stdout}")


def differences(committed, found):
    """Each line that only one of the two tables has, with which, in the order of the tables."""
    old, new = committed.splitlines(), found.splitlines()
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]


def _check(names):
    wrong = 0
    for name in names:
        path = pathlib.Path(FOLDER, name + ".md")
        label = "//" + PROGRAMS[name][0].replace("/", ":")
        lines = differences(path.read_text(encoding="utf-8") if path.exists() else "", table(name))
        if lines:
            wrong += 1
            print(f"{path}: expected what {label} prints, got other lines (-); {_COMMAND} writes it:")
            print("\n".join(lines))
    return 1 if wrong else 0


def main(arguments):
    if arguments[:1] == ["--check"] and arguments[1:] and set(arguments[1:]) <= set(PROGRAMS):
        return _check(arguments[1:])
    if arguments:
        print(f"predicted: expected no arguments, or --check and some of {', '.join(PROGRAMS)}, got {' '.join(arguments)}",
              file=sys.stderr)
        return 2
    for name in PROGRAMS:
        path = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"], FOLDER, name + ".md")
        path.write_text(table(name), encoding="utf-8")
        print(f"{path} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
