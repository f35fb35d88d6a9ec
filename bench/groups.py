"""What the report measures: for each group a contest of our program with its peers. A row of README.md each."""

import os
import sys
from dataclasses import dataclass

from bench import figures
from bench.runs import Contest, Contestant


@dataclass
class Setting:
    """Where programs are, and how long to measure."""
    programs: str  # folder of our binaries
    peers: str  # folder of the peers' scripts
    python: str  # for PyTorch and JAX; "": there is none
    original_python: str  # a CPython 3.10 with the original framework; "": there is none
    quick: bool = False


def _ours(setting, program, arguments, read, name="ours", timeout=300):
    return Contestant(name, [os.path.join(setting.programs, program)] + arguments, read, timeout)


def _launched(setting, ranks, program, arguments, read, timeout=300, name="ours, %d processes"):
    """Our program as several processes of this machine, through //tools:launch."""
    launcher = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools", "launch.py")
    command = [sys.executable, launcher, "-n", str(ranks), "--", os.path.join(setting.programs, program)] + arguments
    return Contestant(name % ranks, command, read, timeout)


def _peer(setting, name, script, arguments, read, timeout=300, original=False):
    python, flag = (setting.original_python, "original_python") if original else (setting.python, "python")
    command = [python, os.path.join(setting.peers, script)] + arguments
    trouble = "" if python else "missing: no Python to run %s; --%s names one" % (script, flag)
    return Contestant(name, command, read, timeout, trouble=trouble)


def _google(setting, program, arguments, rounds, timeout=300):
    arguments = ["--benchmark_format=json"] + arguments
    return _ours(setting, program, arguments, figures.of_google_benchmark, timeout=timeout), rounds


def runtime(setting):
    ours, rounds = _google(setting, "runtime_benchmark", [], 1 if setting.quick else 3)
    return [Contest("runtime", ours, rounds=rounds)]


def boxing(setting):
    ours, rounds = _google(setting, "boxing_benchmark", ["--benchmark_min_time=0.2"], 1 if setting.quick else 2)
    peers = [_peer(setting, "gloo, %d processes" % n, "gloo_all_reduce.py",
                   ["--processes=%d" % n] + (["--mib=1,16"] if setting.quick else []), figures.of_lines)
             for n in (2, 4)]
    return [Contest("boxing", ours, peers, rounds)]


def compile_time(setting):
    arguments = ["--benchmark_filter=layers:4/"] if setting.quick else []
    ours, rounds = _google(setting, "compile_benchmark", arguments, 1 if setting.quick else 2)
    return [Contest("compile", ours, rounds=rounds)]


def ops(setting):
    contests = []
    for size in ["tiny"] if setting.quick else ["tiny", "small"]:
        for threads in [1] if setting.quick else [1, 2]:
            ours = _ours(setting, "ops_benchmark", ["--json", "--size=" + size, "--threads=%d" % threads],
                         figures.of_lines)
            contests.append(Contest("ops %s, threads %d" % (size, threads), ours, rounds=1))
    return contests


# Warm-up and timed steps: a small step takes seconds.
_STEPS = {"tiny": (4, 20), "small": (1, 3)}
_QUICK_STEPS = {"tiny": (2, 8), "small": (1, 1)}


def gpt(setting):
    contests = []
    for size in ["tiny"] if setting.quick else ["tiny", "small"]:
        warmup, steps = (_QUICK_STEPS if setting.quick else _STEPS)[size]
        for threads in (1, 2):
            arguments = ["--size=" + size, "--threads=%d" % threads, "--warmup=%d" % warmup, "--steps=%d" % steps]

            def peer(name, script, more):
                return _peer(setting, name, script, arguments + more, figures.of_gpt_step, timeout=400)

            peers = [peer("PyTorch eager", "gpt_step_torch.py", ["--mode=eager"]),
                     peer("PyTorch compiled", "gpt_step_torch.py", ["--mode=compiled"]),
                     peer("JAX", "gpt_step_jax.py", [])]
            ours = _ours(setting, "gpt_step", arguments, figures.of_gpt_step)
            contests.append(Contest("gpt %s, threads %d" % (size, threads), ours, peers,
                                    1 if setting.quick else {"tiny": 3, "small": 2}[size]))
    return contests


def meshes(setting):
    """Two devices of one process, a thread each; JAX's are virtual devices of its CPU client."""
    contests = []
    for mesh in ("data=2", "model=2"):
        arguments = ["--size=tiny", "--threads=1", "--mesh=" + mesh]
        arguments += ["--warmup=2", "--steps=8"] if setting.quick else []
        peer = _peer(setting, "JAX", "gpt_step_jax.py", arguments, figures.of_gpt_step, timeout=400)
        contests.append(Contest("gpt tiny, " + mesh, _ours(setting, "gpt_step", arguments, figures.of_gpt_step), [peer],
                                1 if setting.quick else 3))
    return contests


def original(setting):
    """The framework of the paper, on its own: a process of it takes a minute to compile."""
    arguments = ["--size=tiny", "--threads=2", "--warmup=2", "--steps=8"]
    peer = _peer(setting, "OneFlow 0.9", "gpt_step_oneflow.py", arguments, figures.of_gpt_step,
                 timeout=600, original=True)
    return [Contest("original", _ours(setting, "gpt_step", arguments, figures.of_gpt_step), [peer], 1)]


def loader(setting):
    arguments = ["--blocks=6"] if setting.quick else []
    return [Contest("loader", _ours(setting, "loader", arguments, figures.of_lines), rounds=1 if setting.quick else 3)]


def readers(setting):
    arguments = ["--mib=8", "--seconds=0.2"] if setting.quick else []
    return [Contest("readers", _ours(setting, "readers", arguments, figures.of_lines), rounds=1 if setting.quick else 3)]


def net(setting):
    rounds = ["--rounds=5"] if setting.quick else []
    return [Contest("net", _launched(setting, 2, "net_benchmark", rounds, figures.of_lines), rounds=1 if setting.quick else 3)]


def all_reduce(setting):
    contests = []
    for processes in (2, 4):
        sizes = "--mib=1,16" if setting.quick else "--mib=1,16,256"
        many = ["--processes=%d" % processes, sizes]
        peers = [_peer(setting, "gloo", "gloo_all_reduce.py", many + [
            "--only=p_to_b", "--unit=B/s", "--seconds=2", "--name=net/all_reduce/processes:{processes}/mib:{mib}"],
                       figures.of_lines)]
        mpi = [_peer(setting, "OpenMPI over " + words, "mpi_all_reduce.py", many + ["--over=" + over], figures.of_lines)
               for words, over in (("TCP", "tcp"), ("shared memory", "shared_memory"))]
        for way, flags, beside in (("shared memory", [], peers + mpi), ("TCP", ["--net=tcp"], peers + mpi[:1])):
            ours = _launched(setting, processes, "net_all_reduce", [sizes] + flags, figures.of_lines)
            contests.append(Contest("all-reduce over %s, %d processes" % (way, processes), ours, beside,
                                    1 if setting.quick else 3))
    return contests


def _step_alone(text):
    return [figure for figure in figures.of_gpt_step(text) if figure.name.endswith("/step")]


def processes(setting):
    """The step on two processes beside the same mesh in one, and PyTorch's two ways beside each other."""
    contests = []
    for size in ["tiny"] if setting.quick else ["tiny", "default", "small"]:
        warmup, steps = {"tiny": (4, 30), "default": (4, 20), "small": (1, 3)}[size]
        for mesh in ("data=2", "model=2"):
            arguments = ["--size=" + size, "--mesh=" + mesh, "--warmup=%d" % warmup, "--steps=%d" % steps]
            ours = _launched(setting, 2, "gpt_step", arguments + ["--threads=1"], _step_alone, 400)
            peers = [_ours(setting, "gpt_step", arguments + ["--threads=1"], _step_alone, "ours, 1 process x 2 devices", 400),
                     _launched(setting, 2, "gpt_step", arguments + ["--threads=1", "--net=tcp"], _step_alone, 400,
                               "ours, %d processes over TCP")]
            if mesh == "data=2":
                peers += [_peer(setting, "PyTorch DDP, gloo, 2 processes", "gpt_step_torch.py",
                                arguments + ["--threads=1", "--processes=2"], _step_alone, 400),
                          _peer(setting, "PyTorch, 1 process x 2 threads", "gpt_step_torch.py", arguments + ["--threads=2"],
                                _step_alone, 400)]
            contests.append(Contest("gpt %s, %s" % (size, mesh), ours, peers,
                                    1 if setting.quick else {"tiny": 5, "default": 5, "small": 2}[size]))
    return contests


def null_ranks(setting):
    steps = ["--steps=%d" % (50 if setting.quick else 1000)]
    return [Contest("null", _launched(setting, 16, "net_null", steps, figures.of_lines, 900), rounds=1)]


@dataclass
class Group:
    contests: object  # Setting -> list of Contest
    what: str
    parts: bool = False  # show the further counters of each case


GROUPS = {
    "runtime": Group(runtime, "Messages between actors and instructions of a script, beside what the machine needs for it."),
    "boxing": Group(boxing, "Bytes of the logical tensor a second: our kernels among devices of one process, without "
                    "the messages between them (those are in runtime), and gloo among processes."),
    "compile": Group(compile_time, "Time to compile a GPT's plan, by layers and mesh; below, its phases in seconds.", parts=True),
    "ops": Group(ops, "Every kernel of the GPT step beside the limit that binds it: arithmetic or memory."),
    "gpt": Group(gpt, "A training step: forward, backward, AdamW, f32. Memory is the process's largest resident size."),
    "meshes": Group(meshes, "The tiny step on two devices of one process; data=2 has twice the batch."),
    "original": Group(original, "The same step in the last release of the original framework."),
    "readers": Group(readers, "Bytes a second that the readers of data files give, from the system's cache: beside a copy in memory, "
                     "or the library that unpacks."),
    "loader": Group(loader, "Steps on batches drawn from text against steps on the same tokens again and again."),
    "net": Group(net, "TcpNet between two processes over loopback, beside a raw socket between the same two."),
    "all_reduce": Group(all_reduce, "Bytes of the tensor a second: P to B over TCP among processes through a session, without and with "
                        "the pass over memory that makes the terms."),
    "processes": Group(processes, "A GPT step on two processes of a core each over TCP, beside one process with a device for each; the "
                       "batch of data=2 is twice that of one device. A ratio is that of the turns, taken in pairs."),
    "null_ranks": Group(null_ranks, "The protocol of a GPT step among 16 processes whose devices compute nothing."),
}
