"""The predicted times of the models' steps on GPUs, kept in bench/predicted as //bench:gpu_steps prints them.

    ./bazelw run //bench:predicted                # after a change of what steps cost on a card: writes the tables anew
    ./bazelw test //bench:predicted_test          # says which steps the tables have otherwise

The tables are what `ci/gpu` will hold measured steps against, so each is in version control as it was before anybody
measured: a prediction that is made afterwards is none.
"""

import os
import pathlib
import subprocess
import sys

CARDS = ("h100", "h200", "a100")
FOLDER = "bench/predicted"
_PROGRAM = "bench/gpu_steps"
_COMMAND = "./bazelw run //bench:predicted"


def tables(program):
    """The text of each card's table."""
    found = {}
    for card in CARDS:
        ran = subprocess.run([program, f"--gpu={card}"], stdout=subprocess.PIPE, text=True, check=True)
        found[card] = (f"Written by `{_COMMAND}`; nothing of this is measured. What the columns are: "
                       f"[bench/README.md](../README.md#what-a-gpu-could-do-at-most).\n\n{ran.stdout}")
    return found


def differences(committed, found):
    """Each line that only one of the two tables has, with which, in the order of the tables."""
    old, new = committed.splitlines(), found.splitlines()
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]


def main(arguments):
    found = tables(_PROGRAM)
    if arguments == ["--check"]:
        wrong = 0
        for card, text in found.items():
            path = pathlib.Path(FOLDER, card + ".md")
            lines = differences(path.read_text(encoding="utf-8") if path.exists() else "", text)
            if lines:
                wrong += 1
                print(f"{path}: expected what //bench:gpu_steps prints, got other lines (-); {_COMMAND} writes it:")
                print("\n".join(lines))
        return 1 if wrong else 0
    if arguments:
        print(f"predicted: expected no arguments or --check, got {' '.join(arguments)}", file=sys.stderr)
        return 2
    for card, text in found.items():
        path = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"], FOLDER, card + ".md")
        path.write_text(text, encoding="utf-8")
        print(f"{path} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
