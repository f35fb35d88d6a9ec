"""A job over the hosts of hosts_network.py: started by //tools:launch --hosts, watched from outside, compared with one process."""
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import time

import core_time
from chaos_job import Job, expect
from hosts_network import address

_TEXT_BYTES = 12000
_GRACE = 20  # seconds: ranks have to end by themselves
_ENTER = "sh -c 'exec nsenter --net={spaces}/$0 sh -c \"$1\"'"


class Training:
    """What is trained, on which mesh, how long."""

    def __init__(self, model, mesh, steps, more=(), ranks=None):
        """On as many hosts as its devices are dealt out to, at most four, unless it is said."""
        devices = math.prod(int(axis.partition("=")[2]) for axis in mesh.split())
        ranks = ranks or next(count for count in (4, 3, 2, 1) if count <= devices)
        self.model, self.mesh, self.steps, self.more, self.ranks = model, mesh, steps, tuple(more), ranks

    def __str__(self):
        return " ".join([self.model, f"--mesh={self.mesh}", *self.more])

    def arguments(self):
        return [*MODELS[self.model], f"--mesh={self.mesh}", f"--steps={self.steps}", *self.more]


MODELS = {
    "gpt": ["--preset=tiny", "--layers=2", "--hidden=16", "--heads=4", "--sequence_length=16", "--batch=12", "--data=text.txt",
            "--sample_length=0", "--eval_every=0"],
    "wide_and_deep": ["--preset=synthetic", "--vocabulary=1000", "--widths=4", "--hidden=16,8", "--batch=24", "--eval_every=0"],
    "bert": ["--preset=small", "--layers=2", "--hidden=16", "--heads=4", "--sequence_length=24", "--vocabulary=120",
             "--predictions=4", "--batch=12", "--data=text.txt", "--eval_every=0"],
    "resnet": ["--preset=synthetic", "--depth=18", "--width=4", "--image_size=16", "--small_images", "--classes=10", "--batch=8",
               "--eval_every=0"],
    "insightface": ["--preset=synthetic", "--network=mobilefacenet", "--width=4", "--embedding=16", "--image_size=16",
                    "--classes=11", "--batch=8", "--eval_every=0"],
}


class HostsJob(Job):
    """Rank 0 runs on host 0, and so on."""

    def __init__(self, programs, folder, training, network, shell=_ENTER, launcher_host=None):
        folder.mkdir()
        _write_text(programs, folder)
        launch = programs["launch"] if launcher_host is None else network.command(launcher_host, programs["launch"])
        super().__init__({"launch": launch, "train": programs[training.model]}, folder, training)
        self._network = network
        self._others = set()  # that are none of this job
        self._before, self._others = self._listeners(), set(self.processes())
        self._list = folder / "hosts"
        self.choose_hosts(range(training.ranks))
        spaces = folder / "spaces"
        spaces.mkdir()
        for host in range(network.hosts):
            (spaces / f"host{host}").symlink_to(network.space(host))
        self._shell = shell.format(spaces=spaces)

    def choose_hosts(self, hosts):
        self._list.write_text("".join(f"host{host} address={address(host)}\n" for host in hosts))

    def _listeners(self):
        return {(host, port) for host in range(self._network.hosts) for port in self._network.listeners(host)}

    def launcher_arguments(self):
        return [f"--hosts={self._list}", f"--remote_shell={self._shell}", f"--grace={_GRACE}"]

    def _started(self):
        return self.processes()

    def _owns(self, environment):
        return True  # a remote shell may leave our mark behind; where the process runs says enough

    def processes(self):
        """All that were started for this job, and all that were not on its hosts before."""
        hosts = {os.stat(self._network.space(host)).st_ino for host in range(self._network.hosts)}
        found = set(super().processes())
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.stat(f"/proc/{name}/ns/net").st_ino in hosts:
                    found.add(int(name))
            except OSError:  # it has just ended
                pass
        return sorted(found - self._others)

    def wait_for_step(self, step):
        while self.step() < step:
            self.check_time()
            expect(not self.over(), f"ended before step {step}: {self.errors()[-800:]}")
            time.sleep(0.01)

    def finish(self):
        while not self.over():
            self.check_time()
            time.sleep(0.01)
        self.expect_nothing_left()
        expect(self.launcher.returncode == 0, f"expected exit code 0, got {self.launcher.returncode}: {self.errors()[-800:]}")

    def expect_nothing_left(self, seconds=2.0):
        took = super().expect_nothing_left(seconds)
        left = self._listeners() - self._before
        expect(not left, f"ports are still open: {left}")
        return took

    def said(self, rank):
        """The error with which a rank has ended."""
        begin = f"[rank {rank}] train: " if rank else "train: "
        lines = [line[len(begin):] for line in self.errors().splitlines() if line.startswith(begin)]
        return lines[-1] if lines else ""

    def ends(self, living, since, limit):
        """How many seconds after `since` each of the ranks had ended, by rank."""
        ended = {}
        watch = core_time.Watch([process.pid for process in living.values()])
        while len(ended) < len(living):
            watch.look()
            now = time.monotonic() - since
            for rank, process in living.items():
                if rank not in ended and not process.living():
                    ended[rank] = now
            expect(now - watch.waited() < limit,
                   f"after {now:.1f} s, of which they waited {watch.waited():.1f} s for a core, ranks "
                   f"{sorted(set(living) - set(ended))} had not ended; expected {limit} s: {self.errors()[-800:]}")
            time.sleep(0.005)
        return ended

    def result(self):
        return whole_tensors(self.last_checkpoint()), self.losses()


def _write_text(programs, folder):
    """Little of it: of a run with few steps the evaluation on held-out text would be the most."""
    text = pathlib.Path(programs["text"]).read_bytes()
    (folder / "text.txt").write_bytes(text[:_TEXT_BYTES])


def run_alone(programs, folder, training, resume=None):
    """What one process writes."""
    folder.mkdir()
    _write_text(programs, folder)
    arguments = training.arguments() + ["--out=run"]
    if resume:
        shutil.copytree(resume, folder / "run")
        arguments = ["--resume=run"] + [word for word in arguments if not word.startswith(("--preset", "--out"))]
    job = Job({}, folder, training)
    # `bazel run` says where it was started, and that is not where the text lies.
    environment = {**os.environ, "BUILD_WORKING_DIRECTORY": str(folder)}
    ended = subprocess.run([programs[training.model], *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    expect(ended.returncode == 0, f"one process: exit {ended.returncode}: {ended.stderr[-800:]}")
    return whole_tensors(job.last_checkpoint()), job.losses()


def whole_tensors(checkpoint):
    """By name: type, shape and digest of the bytes of each tensor, whichever parts it lies in."""
    manifest = json.loads((checkpoint / "manifest.json").read_text(encoding="utf-8"))
    found = {"": {key: manifest[key] for key in ("step", "samples", "seed")}}
    stored = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        for name, tensor in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + offset for offset in tensor["data_offsets"])
                stored[name] = data[begin:end]
    for name, tensor in manifest["tensors"].items():
        boxes = {box["box"]: stored[f"{name} {box['box']}"] for box in tensor.get("boxes", [])}
        found[name] = tensor["type"], hashlib.sha256(_join(tensor["type"], boxes) if boxes else stored[name]).hexdigest()
    return found


def _join(kind, boxes):
    """The bytes of a tensor, "f32[256,16]", out of those of its boxes, "[0:128,0:16]"."""
    shape = [int(extent) for extent in re.findall(r"\d+", kind.partition("[")[2])]
    size = sum(map(len, boxes.values())) // max(1, math.prod(shape))
    whole = bytearray(math.prod(shape) * size)
    for text, data in boxes.items():
        ranges = [tuple(map(int, part.split(":"))) for part in text.strip("[]").split(",")] if shape else []
        row = (ranges[-1][1] - ranges[-1][0] if ranges else 1) * size
        for number in range(len(data) // row if row else 0):
            place, rest = 0, number
            for dimension in reversed(range(len(ranges) - 1)):
                begin, end = ranges[dimension]
                place += (begin + rest % (end - begin)) * math.prod(shape[dimension + 1:])
                rest //= end - begin
            place = (place + (ranges[-1][0] if ranges else 0)) * size
            whole[place:place + row] = data[number * row:(number + 1) * row]
    return bytes(whole)
