"""The parts of ci/gpu run: each looks at one thing of CUDA on this machine and says what came of it.

A part is a function of a Context. It says outcomes by it, one a case, and leaves figures in it for the report; what it
raises is an outcome, too, and the next part runs.
"""
import concurrent.futures
import functools
import gzip
import json
import os
import shutil
import time
from dataclasses import dataclass, field

import gpu_machine
from bench import figures

PASSED, FAILED, SKIPPED = "passed", "FAILED", "SKIPPED"
MODELS = ("gpt_tiny", "gpt2_124m", "gpt2_350m", "bert_base", "resnet50", "arcface", "wide_and_deep")
PRECISIONS = ("f32", "bf16")
_CONFORMANCE = ("cuda_kernels_test", "cuda_elementwise_test", "cuda_rows_test", "cuda_updates_test")
_OF_GPT = "Few/*:Bf16/*:AttentionDropout*"  # of its many layouts
_PARITY = ("gpt", "bert", "resnet", "insightface", "wide_and_deep")
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# Wide & Deep's ninth step has the first one's batch again.
SMALL_STEPS = ["--warmup=1", "--steps=8"]
_FOUND = 86  # the status that compute-sanitizer is told to give where it found something
_FOUND_BY_EMULATION = 66
_KEPT_CHARACTERS = 10000  # of either end of the output of a process that failed: the first error is the one that tells


def _ends(text):
    left_out = len(text) - 2 * _KEPT_CHARACTERS
    if left_out <= 0:
        return text
    return "%s\n[%d characters left out]\n%s" % (text[:_KEPT_CHARACTERS], left_out, text[-_KEPT_CHARACTERS:])


@dataclass
class Outcome:
    part: str
    name: str
    state: str
    text: str = ""
    seconds: float = 0.0


@dataclass
class Context:
    """What parts are given, and what they leave."""
    folder: str  # of the unpacked archive
    out: str  # of the report
    emulated: bool
    models: tuple = MODELS
    precisions: tuple = PRECISIONS
    run: object = gpu_machine.run_process
    clock: object = time.monotonic
    environment: dict = field(default_factory=lambda: dict(os.environ))
    log: object = functools.partial(print, flush=True)
    machine: gpu_machine.Machine = field(default_factory=gpu_machine.Machine)
    outcomes: list = field(default_factory=list)
    steps: list = field(default_factory=list)  # lines of gpu_step
    peers: list = field(default_factory=list)  # lines of peers, with "peer"
    predicted: list = field(default_factory=list)  # lines of gpu_steps
    launches: list = field(default_factory=list)  # lines of gpu_step, with "how"
    kernels: list = field(default_factory=list)  # figures.Figure
    failures: list = field(default_factory=list)  # what processes said that failed
    part: str = ""
    ends: float = float("inf")  # of the part, by the clock

    def program(self, name):
        return os.path.join(self.folder, "bin", name)

    def place_of(self, command):
        """What of the environment changes for a command, and the folder that it runs in. Programs of ours find their shared
        libraries and what tests read in the archive."""
        if not any(word.startswith(self.program("")) for word in command):
            return {}, None
        places = [os.path.join(self.folder, "lib"), self.environment.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(place for place in places if place)}, self.folder

    def left(self):
        return self.ends - self.clock()

    def say(self, name, state, text="", ran=None):
        """An outcome; of a process that failed its output is kept for the log."""
        seconds = ran.seconds if ran else 0.0
        self.outcomes.append(Outcome(self.part, name, state, text, seconds))
        self.log("%s  %s: %s%s%s" % (self.part, name, state, " (%.1f s)" % seconds if seconds else "",
                                     ": " + text if text else ""))
        if state == FAILED and ran:
            self.failures.append("=== %s  %s: %s\n%s" % (self.part, name, " ".join(ran.command), _ends(ran.out + ran.err)))

    def start(self, name, command, limit):
        """A process that ends within the part's time; None where there is none left, which is said."""
        limit = min(limit, self.left())
        if limit < 1:
            self.say(name, SKIPPED, "no time was left; --parts=%s alone, or --minutes, gives it some" % self.part)
            return None
        ran = self.run(command, limit, *self.place_of(command))
        ran.command = command
        if ran.status is None:
            self.say(name, FAILED, "no end after %.0f s; %s" % (limit, ran.last_lines()), ran)
            return None
        return ran

    def started(self, name, command, limit):
        """As start; a failure is said, too, and is None."""
        ran = self.start(name, command, limit)
        if ran is not None and ran.status != 0:
            self.say(name, FAILED, "status %d; %s" % (ran.status, ran.last_lines()), ran)
            return None
        return ran

    def all(self, jobs):
        """Calls functions, some at once: only of what is not timed."""
        with concurrent.futures.ThreadPoolExecutor(max(1, min(4, (os.cpu_count() or 1) // 2))) as pool:
            for done in [pool.submit(job) for job in jobs]:
                done.result()

    def small(self):
        """Flags of programs that an emulation could not run otherwise."""
        return ["--small"] + SMALL_STEPS if self.emulated else []


def facts(context):
    """The card, the driver, and what of the toolkit is here."""
    machine = context.machine
    if context.emulated:
        machine.card = "emulation of a GPU on a CPU"
        machine.torch = gpu_machine.Torch(missing="PyTorch has no emulation to run on")
        context.say("card", PASSED, machine.card)
        return
    query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
    ran = context.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], 30)
    if ran.status == 0 and ran.out.strip():
        machine.facts.update(zip(("card", "driver", "memory", "clock at most", "power limit"),
                                 [word.strip() for word in ran.out.splitlines()[0].split(",")]))
    else:
        context.say("nvidia-smi", SKIPPED, "is not here; cuda_info names the card")
    _ask_cuda_info(context)
    machine.sanitizer = gpu_machine.find_tool("compute-sanitizer", context.environment)
    machine.facts["compute-sanitizer"] = machine.sanitizer or "not found"
    machine.torch = gpu_machine.find_torch(context.environment, context.run)
    machine.facts["PyTorch"] = machine.torch.version or machine.torch.missing


def _ask_cuda_info(context):
    ran = context.start("cuda_info", [context.program("cuda_info")], 60)
    if ran is None:
        return
    lines = ran.out.splitlines()
    cards = [line for line in lines if line.startswith("card 0: ")]
    if not cards or not cards[0].endswith("a kernel: runs"):
        context.say("cuda_info", FAILED, (cards or lines[1:2] or [ran.last_lines()])[0], ran)
        return
    context.machine.card = cards[0][len("card 0: "):].split(",")[0]
    context.machine.facts["card says"] = cards[0][len("card 0: "):]
    for library in ("cuBLASLt", "cuDNN", "NCCL"):
        line = next((line for line in lines if line.startswith(library)), library + ": nothing said")
        context.machine.facts[library] = line
        if " in /" not in line or "expected version" in line:
            context.say(library, SKIPPED, line)
    context.say("cuda_info", PASSED, cards[0])


def _run_googletest(context, name, command, limit):
    ran = context.start(name, command, limit)
    if ran is None:
        return
    failed = sorted({line.split()[3].rstrip(",") for line in ran.out.splitlines()
                     if line.startswith("[  FAILED  ] ") and "." in line})
    passed = next((line for line in ran.out.splitlines() if line.startswith("[  PASSED  ]")), "")
    if ran.status == 0 and passed and not passed.startswith("[  PASSED  ] 0 "):
        context.say(name, PASSED, passed[len("[  PASSED  ] "):], ran)
    else:
        context.say(name, FAILED, "%s; %s" % (", ".join(failed) or "status %s" % ran.status, ran.last_lines()), ran)


def conformance(context):
    """Every kernel against its op's reference implementation and the CPU's bits."""
    def job(name):
        quick = ["--gtest_filter=*NansComeOut*:*Errors*:*Folds*"] if context.emulated else []
        return lambda: _run_googletest(context, name, [context.program(name)] + quick, 240)

    context.all([job(name) for name in (_CONFORMANCE[:1] if context.emulated else _CONFORMANCE)])


def parity(context):
    """The tiny models on CUDA devices train as on one CPU, and give the same bits twice."""
    def job(model):
        some = "*TrainsAsOneCpuDoes/data2" if context.emulated else _OF_GPT if model == "gpt" else "*"
        command = [context.program("parity_" + model), "--gtest_filter=" + some]
        return lambda: _run_googletest(context, model, command, 240)

    context.all([job(model) for model in (("wide_and_deep",) if context.emulated else _PARITY)])


def _sanitized(context, tool, command):
    """The command that looks for a mistake; the emulation looks by itself."""
    if context.emulated:
        return command
    return [context.machine.sanitizer, "--tool", tool, "--error-exitcode", str(_FOUND)] + command


def faults(context):
    """Mistakes that were planted are found, by each tool of compute-sanitizer, and none in the product's kernels."""
    if not context.emulated and not context.machine.sanitizer:
        context.say("compute-sanitizer", SKIPPED, "is neither on PATH nor in a toolkit; it comes with cuda-toolkit-13")
        return
    listed = context.started("list", [context.program("wrong_kernels"), "--list"], 30)
    if listed is None:
        return
    cases = [line.split("\t") for line in listed.out.splitlines()]
    tools = ("the emulation",) if context.emulated else _TOOLS
    found = _FOUND_BY_EMULATION if context.emulated else _FOUND

    def planted(name, tool, what):
        ran = context.start(name, _sanitized(context, tool, [context.program("wrong_kernels"), "--fault=" + name]), 60)
        if ran is not None:
            state = PASSED if ran.status == found else FAILED
            text = "%s: %s%s" % (tool, what, "" if state == PASSED else ": not found; " + ran.last_lines())
            context.say(name, state, text, ran)

    def clean(name, tool, command, limit):
        ran = context.started(name, _sanitized(context, tool, command), limit)
        if ran is not None:
            context.say(name, PASSED, "nothing found by %s" % tool, ran)

    def product(model, tool):
        command = [context.program("gpu_step"), "--small", "--model=" + model, "--precision=bf16", "--warmup=1",
                   "--steps=2"]
        clean("%s under %s" % (model, tool), tool, command, 120)

    jobs = [lambda case=case: planted(case[0], case[1], case[2]) for case in cases if case[1] != "all"]
    jobs += [lambda case=case, tool=tool: clean("%s under %s" % (case[0], tool), tool, [context.program("wrong_kernels")], 60)
             for case in cases if case[1] == "all" for tool in tools]
    jobs += [lambda model=model, tool=tool: product(model, tool) for tool in tools for model in context.models]
    context.all(jobs)


def _cases(context):
    """bf16 of all models first: the aims are of it."""
    return [(model, precision) for precision in reversed(PRECISIONS) if precision in context.precisions
            for model in context.models]


def steps(context):
    """A training step of each model in f32 and bf16: time, and memory of the card."""
    _predict(context)
    for model, precision in _cases(context):
        name = "%s %s" % (model, precision)
        command = [context.program("gpu_step"), "--model=" + model, "--precision=" + precision] + context.small()
        ran = context.started(name, command, 60)
        if ran is None:
            continue
        line = _line_of(ran.out, "gpu_step")
        context.steps.append(line)
        _say_step(context, name, line, ran)


# What launching costs: the step of the paper's actors, which fire for each instruction, and one whose launches are not
# gathered into graphs. A script of one instruction has nothing to gather.
_LAUNCHES = {"one instruction a firing": ["--script_length=1"], "no graphs": ["--nocuda_graphs"], "graphs": []}


def launches(context):
    """A step that its launches bind, launched in three ways: the yardsticks beside what is the default."""
    model = "gpt_tiny" if "gpt_tiny" in context.models else context.models[0]
    for name, flags in _LAUNCHES.items():
        command = [context.program("gpu_step"), "--model=" + model, "--precision=bf16"] + flags + context.small()
        ran = context.started(name, command, 30)
        if ran is None:
            continue
        line = _line_of(ran.out, "gpu_step")
        context.launches.append({**line, "how": name})
        first = context.launches[0]
        context.say(name, PASSED, "%s %.3g ms, %.2f of %s" % (
            model, line["median_ms"], line["median_ms"] / first["median_ms"], first["how"]), ran)


def _say_step(context, name, line, ran):
    fell = line["last_loss"] < line["first_loss"]
    text = "%.3g ms, %.2f GB" % (line["median_ms"], line.get("device_peak_bytes", 0) / 1e9)
    if not fell:
        text += "; the loss did not fall: %g, then %g" % (line["first_loss"], line["last_loss"])
    context.say(name, PASSED if fell else FAILED, text, ran)


def _line_of(text, benchmark):
    """The line of JSON that a program of steps prints; a ValueError where there is none."""
    for line in text.splitlines():
        if line.startswith("{") and json.loads(line).get("benchmark") == benchmark:
            return json.loads(line)
    raise ValueError("no line of %s in its output" % benchmark)


def _predict(context):
    gpu = "h100" if context.emulated else context.machine.card
    ran = context.start("prediction", [context.program("gpu_steps"), "--json", "--gpu=" + gpu] + context.small()[:1], 60)
    if ran is None:
        return
    if ran.status != 0:
        context.say("prediction", SKIPPED, ran.last_lines(1))
        return
    predicted = [json.loads(line) for line in ran.out.splitlines() if line.startswith("{")]
    context.predicted += [each for each in predicted if each["precision"] in context.precisions]


def kernels(context):
    """Every kernel of these steps beside the card's peaks."""
    for model, precision in _cases(context):
        name = "%s %s" % (model, precision)
        command = [context.program("gpu_kernels"), "--model=" + model, "--precision=" + precision]
        ran = context.start(name, command + context.small()[:1], 60)
        if ran is None:
            continue
        # Kernels that ran are told though others failed.
        found = figures.of_lines(ran.out)
        timed = [figure for figure in found if "times" in figure.parts]
        context.kernels += found if timed else []
        if timed and ran.status == 0:
            context.say(name, PASSED, "%d kernels" % len(timed), ran)
        else:
            context.say(name, FAILED, "%d kernels; status %d; %s" % (len(timed), ran.status, ran.last_lines()), ran)


def trace(context):
    """A timeline of steps for Perfetto."""
    model = context.models[0] if context.emulated or "gpt2_124m" not in context.models else "gpt2_124m"
    path = os.path.join(context.out, "trace_%s.json" % model)
    command = [context.program("gpu_step"), "--model=" + model, "--precision=bf16", "--trace=" + path, "--warmup=1",
               "--steps=4"] + context.small()[:1]
    ran = context.started(model, command, 60)
    if ran is None:
        return
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = [event for event in events if event.get("ph") == "X"]
    on_device = [event for event in spans if event.get("cat") == "on device"]
    with open(path, "rb") as file, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(file, packed)
    os.remove(path)
    text = "%d spans in %s.gz, %d of them of the card, for ui.perfetto.dev" % (len(spans), os.path.basename(path), len(on_device))
    context.say(model, PASSED if on_device else FAILED, text, ran)


# The scripts of bench/peers, and what makes their step the one that ours is.
_PEERS = {
    "gpt_tiny": ("gpt", ["--size=tiny"]),
    "gpt2_124m": ("gpt", ["--size=gpt2_124m"]),
    "gpt2_350m": ("gpt", ["--size=gpt2_350m"]),
    "bert_base": ("bert", ["--batch=64"]),
    "resnet50": ("resnet", ["--batch=128"]),
    "arcface": ("arcface", ["--batch=1024"]),
    "wide_and_deep": ("wide_and_deep", ["--batch=65536"]),
}


def _peers(context, mode, limit):
    torch = context.machine.torch
    if torch.missing:
        context.say("PyTorch " + mode, SKIPPED, torch.missing)
        return
    for model, precision in _cases(context):
        name = "%s %s" % (model, precision)
        script, arguments = _PEERS[model]
        # PyTorch compiles no sparse gradients.
        dense = ["--dense"] if model == "wide_and_deep" and mode == "compiled" else []
        command = [torch.python, os.path.join(context.folder, "bench", "peers", script + "_step_torch.py"), "--device=cuda",
                   "--mode=" + mode, "--precision=" + precision, "--warmup=5", "--steps=20"] + arguments + dense
        ran = context.started(name, command, limit)
        if ran is None:
            continue
        line = _line_of(ran.out, script + "_step")
        ours = [each for each in context.steps if each["size"] == model]
        if ours and ours[0]["parameters"] != line["parameters"]:
            context.say(name, FAILED, "another model, of %d parameters; ours has %d" % (line["parameters"],
                                                                                     ours[0]["parameters"]), ran)
            continue
        context.peers.append({**line, "size": model, "peer": "PyTorch " + mode})
        _say_step(context, name, line, ran)


def eager(context):
    """The same steps in PyTorch, op by op."""
    _peers(context, "eager", 60)


def compiled(context):
    """The same steps in PyTorch, by torch.compile, which takes most of the time."""
    _peers(context, "compiled", 150)


# In this order, seconds at most: what tells most first, as the last ones find no time where all are slow.
PARTS = {
    "facts": (facts, 60),
    "conformance": (conformance, 240),
    "steps": (steps, 130),
    "eager": (eager, 120),
    "launches": (launches, 30),
    "kernels": (kernels, 120),
    "parity": (parity, 90),
    "trace": (trace, 30),
    "faults": (faults, 120),
    "compiled": (compiled, 450),
}
