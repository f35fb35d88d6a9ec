"""Seeded chaos on real processes: the trainer as several ranks, and what goes wrong with them.

    bazel run //ci:chaos -- --runs=300                # by hand: three seconds a run and core where little else runs
    bazel run //ci:chaos -- --runs=1 --seed=17        # one run again, as a failure says
    bazel test //ci:chaos_test                        # two runs; .ci/run has it

A run is a seed. It picks a small GPT, a layout of it over ranks, one to three faults (chaos_faults.py) and the moments at
which they come; starts it by the launcher with --restarts and --save_every; and starts it again where it was told to
stop. Then the tensors of the last checkpoint and the losses of the log have to be bit by bit those of a run that nobody
disturbed, no process and no port may be left, every error has to name a rank, and nothing may have taken too long.
"""
import argparse
import concurrent.futures
import pathlib
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time

from chaos_faults import FAULTS, Moment, mount_small_disk, unmount
from chaos_job import Failure, Job, Layout, expect, expect_same

_LAYOUTS = (Layout(2, "data=2", 1), Layout(2, "model=2", 2), Layout(2, "pipe=2", 3), Layout(2, "data=2", 2, zero=2),
            Layout(3, "data=3", 1), Layout(3, "pipe=3", 3), Layout(4, "data=2 model=2", 1),
            Layout(4, "data=2 pipe=2", 2))
_WEIGHTS = {"kill": 8, "pause": 2, "stall": 2, "terminate": 3, "terminate_all": 1, "kill_launcher": 2, "reset": 3,
            "full_disk": 2, "file_limit": 2, "strangers": 3}
_QUICK = {"kill": 4, "terminate": 2, "strangers": 2, "reset": 2, "pause": 1}


def _find(path):
    for base in (pathlib.Path.cwd(), pathlib.Path(__file__).absolute().parent.parent):
        for place in (base / path, base / "bazel-bin" / path):
            if place.is_file():
                return str(place.absolute())
    raise SystemExit(f"chaos: {path} is not beside this program; start it with bazel")


class Plan:
    """What a seed says."""

    def __init__(self, seed, most_ranks, weights):
        self.seed = seed
        self.random = random.Random(seed)
        self.layout = self.random.choice([layout for layout in _LAYOUTS if layout.ranks <= most_ranks])
        names = self.random.choices(list(weights), list(weights.values()), k=self.random.choice((1, 1, 2, 2, 3)))
        self.faults = [(name, Moment(self.random)) for name in names]

    def __str__(self):
        return f"{self.layout}; " + ", ".join(f"{name} at {moment}" for name, moment in self.faults)


class Campaign:
    """Undisturbed runs, each made once, and disturbed ones."""

    def __init__(self, folder, most_ranks, weights):
        self.folder, self.most_ranks, self.weights = pathlib.Path(folder), most_ranks, weights
        self.programs = {"train": _find("models/gpt/train"), "launch": [sys.executable, _find("tools/launch.py")]}
        self.text = _find("models/gpt/testdata/fixed.txt")
        self._undisturbed = {}
        self._lock = threading.Lock()

    def _job(self, name, layout):
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(self.text, folder / "text.txt")
        secret = folder / "secret"
        secret.write_text("what only ranks of this job know", encoding="ascii")
        secret.chmod(0o600)
        return Job(self.programs, folder, layout)

    def _expected(self, layout):
        with self._lock:
            if layout not in self._undisturbed:
                job = self._job(f"undisturbed{len(self._undisturbed)}", layout)
                try:
                    job.start()
                    while not job.over():
                        job.check_time()
                        time.sleep(0.01)
                    expect(job.launcher.returncode == 0, f"undisturbed: exit {job.launcher.returncode}: {job.errors()}")
                    self._undisturbed[layout] = job.result()
                finally:
                    job.close()
            return self._undisturbed[layout]

    def run(self, seed):
        """(plan, how its faults were met, the failure or None)."""
        plan, met = Plan(seed, self.most_ranks, self.weights), []
        job = self._job(f"seed{seed}", plan.layout)
        failure = None
        try:
            expected = self._expected(plan.layout)
            if any(name == "full_disk" for name, _ in plan.faults):
                mount_small_disk(job.run, "3m")
            self._disturb(job, plan, met)
            expect_same(job.result(), expected, any("disk full" in one.name or "limit" in one.name for one in met))
        except (Failure, OSError, ValueError, KeyError) as error:
            failure = f"{type(error).__name__}: {error}"
        finally:
            job.close()
        if failure is None:
            unmount(job.run)
            shutil.rmtree(job.folder, ignore_errors=True)
        return plan, met, failure

    @staticmethod
    def _disturb(job, plan, met):
        job.start()
        breaks = 0
        for name, moment in plan.faults:
            if not moment.wait(job):
                continue
            job.note_ports()
            one = FAULTS[name](job, plan.random)
            if one is None:
                continue
            met.append(one)
            breaks += one.breaks
            if one.stops:
                _finish(job, breaks, met)
                breaks = 0
                job.start()
        _finish(job, breaks, met)
        expect(job.launcher.returncode == 0, f"exit {job.launcher.returncode}: {job.errors()[-600:]}")


def _finish(job, breaks, met):
    """The launcher ends, and what it leaves is right."""
    while not job.over():
        job.check_time()
        time.sleep(0.01)
    job.expect_nothing_left()
    expect(job.restarts() <= breaks, f"expected at most {breaks} restarts, got {job.restarts()}: {job.errors()[-600:]}")
    stalled = any("for good" in one.name for one in met)
    for line in job.errors().splitlines():
        _check_error(re.sub(r"^\[rank \d+\] ", "", line), stalled)


def _check_error(line, stalled):
    """Every line that says that something failed names a rank and why."""
    if line.startswith("launch: "):
        killed = re.search(r"rank \d+ was killed by signal (\d+)", line)
        expect(not killed or int(killed[1]) in (9, 15), f"a rank crashed: {line}")
        expect(stalled or "; killed: " not in line and "others killed: " not in line,
               f"a rank did not end when it was told to: {line}")
    elif line.startswith("train: "):
        # Of a rank's own disk the line of the launcher says which rank it was.
        expect(re.search(r"\branks? \d|missing: \d|: cannot write: ", line), f"an error names no rank: {line}")
    else:
        expect(not re.search(r"Check failed|terminate called|\bFATAL\b|Sanitizer", line), f"a rank crashed: {line}")


def print_table(all_met, missed, failures, runs, seconds):
    rows = {}
    for one in all_met:
        rows.setdefault(one.name, []).append(one.seconds)
    print(f"\n{'fault':34s} {'times':>6s} {'until noticed by all: median':>30s} {'worst':>8s}")
    for name, times in sorted(rows.items()):
        known = [time_ for time_ in times if time_ is not None]
        figures = f"{statistics.median(known):28.2f} s {max(known):6.2f} s" if known else f"{'not noticed':>30s}"
        print(f"{name:34s} {len(times):6d} {figures}")
    hangs = sum("hang" in failure or "had not ended" in failure for failure in failures)
    losses = sum("differs" in failure or "log.jsonl" in failure or "no checkpoint" in failure for failure in failures)
    print(f"{'came too late to be one':34s} {missed:6d}")
    print(f"{runs} runs in {seconds:.0f} s: {runs - len(failures)} right, hangs {hangs}, losses {losses}, "
          f"failed otherwise {len(failures) - hangs - losses}")


def main(arguments):
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others count on")
    parser.add_argument("--ranks", type=int, default=4, choices=(2, 3, 4), help="at most")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("--quick", action="store_true", help="faults that take no waiting, for tests")
    options = parser.parse_args(arguments)
    folder = tempfile.mkdtemp(prefix="chaos-")
    campaign = Campaign(folder, options.ranks, _QUICK if options.quick else _WEIGHTS)
    begin, all_met, failures, missed = time.monotonic(), [], [], 0
    again = f"--runs=1 --ranks={options.ranks}{' --quick' if options.quick else ''} --seed="
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.runs)
        for seed, (plan, met, failure) in zip(seeds, pool.map(campaign.run, seeds)):
            all_met += met
            missed += len(plan.faults) - len(met) if failure is None else 0
            print(f"seed {seed}: {'ok' if failure is None else 'FAILED'}; {plan}; "
                  f"{', '.join(one.name for one in met) or 'nothing came'}", flush=True)
            if failure is not None:
                failures.append(failure)
                print(f"      {failure}\n      its folder: {folder}/seed{seed}\n      again: bazel run //ci:chaos -- {again}{seed}",
                      flush=True)
    print_table(all_met, missed, failures, options.runs, time.monotonic() - begin)
    if not failures:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
