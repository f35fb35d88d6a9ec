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
    models: tuple = ("gpt", "bert", "resnet", "arcface", "wide_and_deep")  # those whose kernels are timed


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


@dataclass
class Model:
    """A model whose step is timed whole, by <name>_step and its peers, and kernel by kernel."""
    title: str
    sizes: list  # of Size
    curve: str  # the committed picture of how it learns
    dense: bool = False  # PyTorch has dense gradients of tables, too


@dataclass
class Size:
    name: str  # beside the model's; "": there is one size
    case: str  # what the program calls it
    arguments: list
    ops: str  # what ops_benchmark calls it
    steps: tuple  # warm-up and timed ones
    quick_steps: tuple  # None: left out of a quick report
    rounds: int = 2
    threads: tuple = (2,)  # in f32; bf16 has two


MODELS = {
    "gpt": Model("GPT", [
        Size("tiny", "tiny", ["--size=tiny"], "tiny", (4, 20), (2, 8), 3, (1, 2)),
        Size("small", "small", ["--size=small"], "small", (1, 3), None),
    ], "models/gpt/default.svg"),
    "bert": Model("BERT base", [Size("", "bert_base", [], "bert_base", (1, 4), (1, 2))], "models/bert/small.svg"),
    "resnet": Model("ResNet-50", [Size("", "resnet50", [], "resnet50", (2, 6), (1, 3))],
                    "models/resnet/fashion_mnist.svg"),
    "arcface": Model("ArcFace", [Size("", "classes100000", [], "arcface", (2, 10), (1, 4))],
                     "models/insightface/characters.svg"),
    "wide_and_deep": Model("Wide & Deep", [Size("", "vocabulary1000000", [], "wide_and_deep", (4, 24), (2, 8))],
                           "models/wide_and_deep/flights.svg", dense=True),
}
_PRECISIONS = ("f32", "bf16")


def _peers_of_step(setting, name, arguments, precision):
    def peer(title, script, more):
        return _peer(setting, title, script, arguments + more, figures.of_step, timeout=600)

    torch = "%s_step_torch.py" % name
    peers = [peer("PyTorch eager", torch, ["--mode=eager"])]
    if MODELS[name].dense:
        peers.append(peer("PyTorch eager, dense", torch, ["--mode=eager", "--dense"]))
    # Compiling takes a minute or two.
    if not setting.quick:
        peers.append(peer("PyTorch compiled", torch, ["--mode=compiled"] + (["--dense"] if MODELS[name].dense else [])))
    if name == "gpt" and precision == "f32":
        peers.append(peer("JAX", "gpt_step_jax.py", []))
    return peers


def _steps(name):
    """The contests of a model's steps, as a group has them."""
    def contests(setting):
        made = []
        for size in MODELS[name].sizes:
            steps = size.quick_steps if setting.quick else size.steps
            for precision in _PRECISIONS if steps else ():
                for threads in size.threads if precision == "f32" else (2,):
                    arguments = size.arguments + ["--threads=%d" % threads, "--precision=" + precision,
                                                  "--warmup=%d" % steps[0], "--steps=%d" % steps[1]]
                    ours = _ours(setting, name + "_step", arguments, figures.of_step)
                    peers = _peers_of_step(setting, name, arguments, precision)
                    title = " ".join([name] + size.arguments) + ", %s, threads %d" % (precision, threads)
                    made.append(Contest(title, ours, peers, 1 if setting.quick else size.rounds))
        return made
    return contests


def ops(setting):
    contests = []
    for name in setting.models:
        for size in MODELS[name].sizes[:1] if setting.quick else MODELS[name].sizes:
            for precision in _PRECISIONS:
                arguments = ["--json", "--size=" + size.ops, "--threads=2", "--precision=" + precision]
                ours = _ours(setting, "ops_benchmark", arguments + (["--budget=0.02"] if setting.quick else []),
                             figures.of_lines)
                contests.append(Contest("ops %s, %s" % (size.ops, precision), ours, rounds=1))
    return contests


def meshes(setting):
    """Two devices of one process, a thread each; JAX's are virtual devices of its CPU client."""
    contests = []
    for mesh in ("data=2", "model=2"):
        arguments = ["--size=tiny", "--threads=1", "--mesh=" + mesh]
        arguments += ["--warmup=2", "--steps=8"] if setting.quick else []
        peer = _peer(setting, "JAX", "gpt_step_jax.py", arguments, figures.of_step, timeout=400)
        contests.append(Contest("gpt tiny, " + mesh, _ours(setting, "gpt_step", arguments, figures.of_step), [peer],
                                1 if setting.quick else 3))
    return contests


def original(setting):
    """The framework of the paper, on its own: a process of it takes a minute to compile."""
    arguments = ["--size=tiny", "--threads=2", "--warmup=2", "--steps=8"]
    peer = _peer(setting, "OneFlow 0.9", "gpt_step_oneflow.py", arguments, figures.of_step,
                 timeout=600, original=True)
    return [Contest("original", _ours(setting, "gpt_step", arguments, figures.of_step), [peer], 1)]


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
    return [figure for figure in figures.of_step(text) if figure.name.endswith("/step")]


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
            if mesh == "data=2" and size == "tiny":
                peers.append(_peer(setting, "the original framework, 2 processes", "gpt_step_oneflow.py",
                                   ["--size=tiny", "--mesh=data=2", "--threads=1", "--processes=2", "--warmup=1",
                                    "--steps=%d" % (2 if setting.quick else 5)], _step_alone, 400, original=True))
            contests.append(Contest("gpt %s, %s" % (size, mesh), ours, peers,
                                    1 if setting.quick else {"tiny": 5, "default": 5, "small": 2}[size]))
    return contests


def null_ranks(setting):
    steps = ["--steps=%d" % (50 if setting.quick else 1000)]
    return [Contest("null", _launched(setting, 16, "net_null", steps, figures.of_lines, 900), rounds=1)]


def saves(setting):
    """The trainer, which saves as it trains, in one process of two devices and on two processes."""
    trainer = os.path.join(os.path.dirname(setting.programs), "models", "gpt", "train")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "save_pause.py")
    saved = "--saves=%d" % (3 if setting.quick else 20)
    return [Contest("saves, %d ranks" % ranks,
                    Contestant("ours", [sys.executable, script, "--trainer=" + trainer, "--ranks=%d" % ranks, saved],
                               figures.of_lines), rounds=1 if setting.quick else 3) for ranks in (1, 2)]


@dataclass
class Group:
    contests: object  # Setting -> list of Contest
    what: str
    parts: bool = False  # show the further counters of each case
    many: bool = False  # so many cases that a table has the sums alone


_STEP = "A training step: forward, backward, update. Memory is the process's largest resident size."

GROUPS = {
    "gpt": Group(_steps("gpt"), _STEP),
    "bert": Group(_steps("bert"), _STEP),
    "resnet": Group(_steps("resnet"), _STEP),
    "arcface": Group(_steps("arcface"), _STEP),
    "wide_and_deep": Group(_steps("wide_and_deep"), _STEP),
    "ops": Group(ops, "Every kernel of the models' steps beside the limit that binds it: arithmetic, memory, or rows of "
                 "tables at random places.", many=True),
    "runtime": Group(runtime, "Messages between actors and instructions of a script, beside what the machine needs for it."),
    "boxing": Group(boxing, "Bytes of the logical tensor a second: our kernels among devices of one process, without "
                    "the messages between them (those are in runtime), and gloo among processes."),
    "compile": Group(compile_time, "Time to compile a GPT's plan, by layers and mesh; below, its phases in seconds.", parts=True),
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
    "saves": Group(saves, "How long training stands still for a checkpoint, beside 5 % of a step; default GPT, data=2."),
    "null_ranks": Group(null_ranks, "The protocol of a GPT step among 16 processes whose devices compute nothing."),
}
