"""What hostile.py tries things in: the programs, a folder for each case, and the list of cases."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import core_time

QUICK, CAMPAIGN = "quick", "campaign"
CASES = {}
TINY = ["--preset=tiny", "--layers=1", "--hidden=16", "--heads=2", "--sequence_length=16", "--batch=8",
        "--mesh=data=1", "--eval_every=0", "--sample_length=0"]
DEADLINE = 120  # seconds that a program may take; more is a hang
NOBODY = 65534


class Failure(Exception):
    pass


def case(kind):
    def add(function):
        CASES[function.__name__] = (kind, function)
        return function
    return add


def expect(condition, what):
    if not condition:
        raise Failure(what)


def can_become_nobody():
    """As root, and not in a sandbox that knows no other user."""
    child = os.fork()
    if child == 0:
        try:
            os.setuid(NOBODY)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


class Ended:
    def __init__(self, code, out, error):
        self.code, self.out, self.error = code, out, error

    def expect(self, code, *messages):
        said = f"exit {self.code}, stderr: {self.error.strip()[-400:]!r}"
        expect(self.code == code, f"expected exit {code}, got {said}")
        for message in messages:
            expect(message in self.error, f"expected {message!r} on stderr, got {said}")
        if code == 1 or code == 2:
            lines = [line for line in self.error.splitlines() if not line.startswith(("W", "I", "warning"))]
            expect(len(lines) == 1, f"expected one line of error, got {said}")
        return self


class Lab:
    """A folder with something to learn, and the programs."""

    def __init__(self, programs, text, folder):
        self.programs, self.folder, self.started = programs, pathlib.Path(folder), []
        shutil.copy(text, self.folder / "text.txt")

    def let_nobody_in(self):
        """For a user without rights, who may not read where the programs lie either."""
        os.chmod(self.folder, 0o777)
        self.programs = {**self.programs, "train": shutil.copy(self.programs["train"], self.folder)}

    def start(self, program, arguments, before=None, **streams):
        environment = {**os.environ, "BUILD_WORKING_DIRECTORY": str(self.folder), "HOME": str(self.folder)}
        streams.setdefault("stdin", subprocess.DEVNULL)
        streams.setdefault("stdout", subprocess.PIPE)
        streams.setdefault("stderr", subprocess.PIPE)

        def prepare():
            # A shell that has the campaign in the background, or nohup, ignores them for all in it.
            for ignored in (signal.SIGINT, signal.SIGHUP):
                signal.signal(ignored, signal.SIG_DFL)
            if before is not None:
                before()

        process = subprocess.Popen([self.programs[program], *arguments], cwd=self.folder, env=environment,
                                   preexec_fn=prepare, **streams)
        self.started.append(process)
        return process

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def end(self, process, seconds=DEADLINE):
        try:
            out, error = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failure(f"still running after {seconds} s: {' '.join(process.args[1:])[:200]}") from None
        text = [(stream or b"").decode(errors="replace") for stream in (out, error)]
        return Ended(process.returncode, *text)

    def interrupt(self, process, what, seconds=3):
        """It ends within so many seconds of Ctrl-C, less what it waited while others had the cores.

        So the limit is the same on a machine that is loaded, and fails whoever does not look at stop there
        too.
        """
        watch = core_time.Watch([process.pid])
        process.send_signal(signal.SIGINT)
        while process.poll() is None and watch.look() < DEADLINE:
            time.sleep(0.01)
        took, waited = watch.look(), watch.waited()
        ended = self.end(process, 1)
        expect(took - waited < seconds, f"{what} took {took:.1f} s, of which it waited {waited:.1f} s for a core; "
               f"expected less than {seconds} besides, exit {ended.code}")
        return ended

    def run(self, program, arguments, before=None, **streams):
        return self.end(self.start(program, arguments, before, **streams))

    def begin_training(self, *more, before=None, steps=1000000, **streams):
        return self.start("train", [*TINY, "--data=text.txt", f"--steps={steps}", *more], before, **streams)

    def train(self, *more, before=None, steps=6, **streams):
        return self.end(self.begin_training(*more, before=before, steps=steps, **streams))

    def resume(self, path, *more, **options):
        return self.run("train", [f"--resume={path}", *more], **options)

    def await_step(self, process, out, step, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            log = self.folder / out / "log.jsonl"
            if log.exists() and f'"step":{step},' in log.read_text(errors="replace"):
                return
            if process.poll() is not None:
                raise Failure(f"ended before step {step}: {self.end(process).error[-300:]}")
            time.sleep(0.02)
        process.kill()
        raise Failure(f"no step {step} in {seconds} s")

    def checkpoints(self, out):
        folder = self.folder / out / "checkpoints"
        return sorted(x for x in folder.iterdir() if re.fullmatch(r"step-\d+", x.name)) if folder.exists() else []

    def expect_loadable(self, checkpoint, step):
        """Goes on from it for one step, in a run of its own."""
        out = f"probe-{random.getrandbits(32):08x}"
        self.resume(checkpoint, f"--out={out}", f"--steps={step + 1}", "--mesh=data=1").expect(0)
        shutil.rmtree(self.folder / out)

    def expect_all_loadable(self, out, least=1):
        found = self.checkpoints(out)
        expect(len(found) >= least, f"expected {least} checkpoints in {out}, got {[x.name for x in found]}")
        for checkpoint in found:
            self.expect_loadable(checkpoint, int(checkpoint.name[5:]))

    def steps_logged(self, out):
        lines = (self.folder / out / "log.jsonl").read_text().splitlines()
        return [x["step"] for x in map(json.loads, lines) if "loss" in x]


def find_runfile(path):
    for base in (pathlib.Path.cwd(), pathlib.Path(__file__).absolute().parent.parent):
        if (base / path).exists():
            return str((base / path).absolute())
    raise SystemExit(f"hostile: {path} is not beside this program; start it with bazel")


def run_cases(names):
    programs = {name: find_runfile(f"models/gpt/{name}") for name in ("train", "import", "export")}
    programs["seal_manifest"] = find_runfile("ci/seal_manifest")
    text = find_runfile("models/gpt/testdata/fixed.txt")
    failed = 0
    for number, name in enumerate(names, 1):
        folder = tempfile.mkdtemp(prefix=f"hostile-{name}-")
        begin, error, lab = time.time(), None, Lab(programs, text, folder)
        try:
            CASES[name][1](lab)
        except (Failure, OSError, ValueError) as failure:
            error = failure
        lab.close()
        failed += error is not None
        print(f"{number:3d}/{len(names)} {name}: {'ok' if error is None else 'FAILED'}, "
              f"{time.time() - begin:.1f} s", flush=True)
        if error is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"      {error}\n      its folder: {folder}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


def main(arguments):
    if arguments == ["--list"]:
        for name, (kind, function) in CASES.items():
            print(f"{kind:9s} {name}")
        return 0
    if arguments == ["--quick"]:
        return run_cases([name for name, (kind, _) in CASES.items() if kind == QUICK])
    unknown = [name for name in arguments if name not in CASES]
    if unknown:
        print(f"hostile: no case {unknown[0]}; --list names them", file=sys.stderr)
        return 2
    return run_cases(arguments or list(CASES))
