#!/usr/bin/env python3
"""Times how long GPT training stands still for a checkpoint: the trainer as it is, saving every few steps to this disk.

    python3 bench/save_pause.py --trainer=bazel-bin/models/gpt/train --ranks=2

The pause of a save is what the trainer says that steps waited, and by how much the step behind a save is longer than the
median of those that follow no save: it begins with no step in flight, and copies what it overwrites. A line of the mean over all
saves but the first, beside 5 % of a step, which it is to stay below.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

_BATCH, _LENGTH = 8, 128
_SHARE = 0.05  # of a step
_SAVING = re.compile(r"^saving +(\d+) times; steps waited ([0-9.]+) ms for each", re.MULTILINE)
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def train(options, folder):
    """What the trainer has printed."""
    command = [options.trainer, "--data=" + os.path.join(_ROOT, "models/gpt/testdata/fixed.txt"), "--out=" + folder,
               "--mesh=data=2", "--batch=%d" % _BATCH, "--sequence_length=%d" % _LENGTH, "--eval_every=0",
               "--sample_length=0", "--measure_peak=false", "--save_every=%d" % options.every,
               "--steps=%d" % (options.every * (options.saves + 1))]
    if options.ranks > 1:
        command = [sys.executable, os.path.join(_ROOT, "tools/launch.py"), "-n", str(options.ranks), "--"] + command
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("%s\n%s\nended with %d" % (done.stdout[-2000:], done.stderr[-2000:], done.returncode))
    return done.stdout


def figure_of(options, printed, log):
    """The line, of what was printed and of the log's lines."""
    waited = _SAVING.search(printed)
    if not waited:
        raise SystemExit("expected a line \"saving\" of the trainer, got\n" + printed[-2000:])
    seconds = {line["step"]: _BATCH * _LENGTH / line["tokens_per_second"]
               for line in map(json.loads, log) if "tokens_per_second" in line}
    # The first steps touch memory, and at the first save there is none yet for the copy.
    measured = {step: time for step, time in seconds.items() if step > 2 * options.every}
    behind = [time for step, time in measured.items() if step % options.every == 1]
    step = statistics.median(time for at, time in measured.items() if at % options.every != 1)
    longer = statistics.fmean(behind) - step
    waits = float(waited.group(2)) / 1e3
    pause = waits + max(0.0, longer)
    return {"name": "saves/gpt/ranks:%d/pause" % options.ranks, "value": pause * 1e9, "unit": "ns",
            "limit": _SHARE * step * 1e9, "goal": "below 5 % of a step",
            "note": "%.2f %% of a step of %.0f ms: waited %.1f ms, the step behind a save %+.1f ms" %
                    (100 * pause / step, 1e3 * step, 1e3 * waits, 1e3 * longer)}


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True)
    parser.add_argument("--ranks", type=int, default=1, choices=(1, 2))
    parser.add_argument("--every", type=int, default=6, help="steps from one save to the next")
    parser.add_argument("--saves", type=int, default=10, help="that are measured")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        printed = train(options, folder + "/run")
        with open(folder + "/run/log.jsonl", encoding="utf-8") as log:
            print(json.dumps(figure_of(options, printed, log)))


if __name__ == "__main__":
    main(sys.argv[1:])
