"""Jobs of several processes that are begun again: nothing leaks over many restarts, and fewer ranks go on as well.

    bazel test --test_tag_filters=slow //ci:restarts_test              # three restarts
    bazel test --test_tag_filters=slow //ci:restarts_slow_test         # twenty

A job of three ranks loses one of them again and again. At every restart its launcher and each of its ranks have as many
descriptors and threads as at the first; afterwards nothing is left in /dev/shm, in TMPDIR or in the run's folder, and
the last checkpoint is that of a run that nobody disturbed. And two ranks go on with what four have saved.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from chaos_job import Job, Layout, expect, expect_same, tensors_of

_RUN = {"checkpoints", "log.jsonl", "options.txt", "run.lock"}
_SECONDS_A_START = 15
_SECONDS_A_LAUNCH = 600  # some twenty on a machine that does nothing else; only a hang takes all of it
_STEPS_A_START = 300  # more than are run until a rank is killed
_SECONDS_TO_LAST = 3.5  # after starts that fail sooner than 3 the launcher waits, in the end for 30 each
_LOOKS = 30  # at what a process has
_SECONDS_OF_A_SAVE = 20  # under way it adds a file and a thread, on a full machine for longer than all looks


def _find(path):
    place = pathlib.Path.cwd() / path
    expect(place.is_file(), f"{path} is not beside this program; start it with bazel")
    return str(place.absolute())


def _has(pid):
    """Descriptors and threads of a process; None if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return None


def _least(job, pids):
    """By name: the least of each that a process was seen to have while nothing was saved."""
    looks = {name: [] for name in pids}
    end = time.monotonic() + _SECONDS_OF_A_SAVE
    while len(looks["launcher"]) < _LOOKS:
        if not job.saving() or time.monotonic() > end:
            for name, pid in pids.items():
                looks[name].append(_has(pid))
        time.sleep(0.005)
    return {name: None if None in seen else tuple(map(min, zip(*seen))) for name, seen in looks.items()}


def _wait_for_steps(job, start):
    """Until all ranks of a start are there, lines have come to the log since, and there is something to go on with.

    Returns when the ranks were seen.
    """
    sizes, seen = set(), None
    while len(sizes) < 4 or not job.checkpoints():
        expect(not job.over(), f"ended before restart {start + 1}: {job.errors()[-600:]}")
        job.check_time()
        ranks = job.ranks().values()
        if len(ranks) == job.layout.ranks and all(rank.start == start for rank in ranks) and job.step() > 0:
            seen = seen or time.monotonic()
            sizes.add((job.run / "log.jsonl").stat().st_size)
        time.sleep(0.005)
    return seen


def _shared_files(pid):
    """What it has open or mapped in /dev/shm, where others' tests have files, too."""
    process, found = pathlib.Path(f"/proc/{pid}"), set()
    try:
        found.update(os.readlink(entry.path) for entry in os.scandir(process / "fd"))
        found.update(line.split()[-1] for line in (process / "maps").read_text(errors="replace").splitlines())
    except OSError:
        pass  # it has ended
    return {path for path in found if path.startswith("/dev/shm/") and os.path.exists(path)}


def _names(folder):
    return set(os.listdir(folder))


def _prepare(folder, text):
    folder.mkdir()
    shutil.copy(text, folder / "text.txt")
    secret = folder / "secret"
    secret.write_text("what only ranks of this job know", encoding="ascii")
    secret.chmod(0o600)
    return folder


def _finish(job):
    while not job.over():
        job.check_time()
        time.sleep(0.01)
    job.expect_nothing_left()
    expect(job.launcher.returncode == 0, f"exit {job.launcher.returncode}: {job.errors()[-600:]}")


def leaks(folder, programs, text, restarts):
    layout = Layout(3, "data=3", 1, steps=_STEPS_A_START * (restarts + 1))
    undisturbed = Job(programs, _prepare(folder / "undisturbed", text), layout, limit=_SECONDS_A_START * (restarts + 1))
    undisturbed.start()
    _finish(undisturbed)
    undisturbed.close()
    temporary = folder / "tmp"
    temporary.mkdir()
    os.environ["TMPDIR"] = str(temporary)
    job = Job(programs, _prepare(folder / "again", text), layout, restarts, _SECONDS_A_START * (restarts + 1))
    seen, shared = {}, set()  # by process: what it had, at each start
    try:
        job.start()
        for start in range(restarts):
            began = _wait_for_steps(job, start)
            ranks = job.ranks()
            pids = {"launcher": job.launcher.pid, **{f"rank {rank}": one.pid for rank, one in ranks.items()}}
            for name, look in _least(job, pids).items():
                seen.setdefault(name, []).append(look)
                shared |= _shared_files(pids[name])
            # It stands still until the start has lasted, so that no steps are run in that time.
            lost = ranks[start % layout.ranks]
            lost.send(signal.SIGSTOP)
            time.sleep(max(0.0, began + _SECONDS_TO_LAST - time.monotonic()))
            lost.send(signal.SIGKILL)
        _finish(job)
        expect(job.restarts() == restarts, f"expected {restarts} restarts, got {job.restarts()}")
        expect_same(job.result(), undisturbed.result(), False)
    finally:
        job.close()
    for name, looks in sorted(seen.items()):
        print(f"{name}: descriptors and threads at each start {looks}")
        again = looks[1:]  # those that go on with a checkpoint have its files open
        expect(None not in looks and len(set(again)) == 1, f"{name}: expected as many at each restart, got {looks}")
    left = [path for path in shared if os.path.exists(path)]
    expect(not left, f"left in /dev/shm: {left}")
    expect(not _names(temporary), f"left in TMPDIR: {_names(temporary)}")
    expect(_names(job.run) == _RUN, f"the run's folder: expected {_RUN}, got {_names(job.run)}")
    unfinished = [name for name in _names(job.run / "checkpoints") if not re.fullmatch(r"step-\d+", name)]
    expect(not unfinished, f"left among the checkpoints: {unfinished}")


def _launch(programs, folder, ranks, arguments, watch=None):
    command = [*programs["launch"], "-n", str(ranks), "--restarts=2", "--", programs["train"], *arguments]
    environment = {**os.environ, "BUILD_WORKING_DIRECTORY": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as launched:
        try:
            if watch is not None:
                watch(launched)
            out = launched.communicate(timeout=_SECONDS_A_LAUNCH)[0].decode(errors="replace")
        finally:
            launched.kill()
    expect(launched.returncode == 0, f"exit {launched.returncode} of {command}: {out[-600:]}")
    return out


def _kill_last_rank_behind(run, step):
    def watch(launched):
        log, end = run / "log.jsonl", time.monotonic() + _SECONDS_A_LAUNCH
        while time.monotonic() < end and f'{{"step":{step},' not in log.read_text(errors="replace"):
            expect(launched.poll() is None, f"ended before step {step}")
            time.sleep(0.005)
        tasks = pathlib.Path(f"/proc/{launched.pid}/task/{launched.pid}")
        children = (tasks / "children").read_text(encoding="ascii").split()
        ranks = [pid for pid in map(int, children) if os.readlink(f"/proc/{pid}/exe").endswith("/train")]
        os.kill(max(ranks), 9)
    return watch


def fewer(folder, programs, text):
    """Two ranks go on with what four have saved, lose one on the way, and end as two that nobody disturbed."""
    for mesh in ("data=2 model=2", "data=2"):
        place = _prepare(folder / mesh.replace(" ", "_"), text)
        begin = [word for word in Layout(4, "data=2 model=2", 1).arguments() if not word.startswith("--steps")]
        _launch(programs, place, 4, [*begin, "--steps=32", "--out=run"])
        shutil.copytree(place / "run", place / "other")
        more = [f"--mesh={mesh}", "--steps=200", "--secret_file=secret", "--data=text.txt", "--sample_length=0"]
        out = _launch(programs, place, 2, ["--resume=run", *more], _kill_last_rank_behind(place / "run", 60))
        expect("restart 1" in out, f"nobody was restarted: {out[-600:]}")
        _launch(programs, place, 2, ["--resume=other", *more])
        last = "checkpoints/step-000200"
        got, expected = tensors_of(place / "run" / last), tensors_of(place / "other" / last)
        differing = [key for key in set(got) | set(expected) if got.get(key) != expected.get(key)]
        expect(not differing, f"{mesh} on two ranks: differs from the undisturbed run: {differing[:4]}")
        print(f"{mesh} on two ranks: {len(got) - 1} boxes are those of the undisturbed run")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--restarts", type=int, default=20)
    options = parser.parse_args()
    programs = {"train": _find("models/gpt/train"), "launch": [sys.executable, _find("tools/launch.py")]}
    text = _find("models/gpt/testdata/fixed.txt")
    with tempfile.TemporaryDirectory() as folder:
        fewer(pathlib.Path(folder), programs, text)
        leaks(pathlib.Path(folder), programs, text, options.restarts)


if __name__ == "__main__":
    main()
