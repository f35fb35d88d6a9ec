"""What of CUDA a machine has beside our programs: tools of the toolkit, a Python with PyTorch, processes that end in time."""
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field


@dataclass
class Ran:
    """A process that has ended."""
    status: int  # None: it was ended because its time was up
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    command: list = field(default_factory=list)

    def last_lines(self, count=4):
        """Of its errors, or where it told none, of what it printed."""
        text = self.err if self.err.strip() else self.out
        lines = [line.strip()[:300] for line in text.splitlines() if line.strip()]
        return " | ".join(lines[-count:])


def run_process(command, limit, environment=None, folder=None):
    """Runs it in a folder, and in a process group of its own, so that what it started ends with it."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   start_new_session=True, cwd=folder, env={**os.environ, **(environment or {})})
    except OSError as error:
        return Ran(127, err="%s: %s" % (command[0], error))
    try:
        out, err = process.communicate(timeout=limit)
        return Ran(process.returncode, out, err, time.monotonic() - began)
    except BaseException as error:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        out, err = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return Ran(None, out, err, time.monotonic() - began)


def toolkits(environment):
    """Folders of toolkits, first to last, as docs/cuda.md has them."""
    found = [environment.get("CUDA_HOME"), environment.get("CUDA_PATH")]
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    if nvcc:
        found.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    return [folder for folder in found + ["/usr/local/cuda"] if folder and os.path.isdir(folder)]


def find_tool(name, environment):
    """A program of the toolkit, "" if it is nowhere."""
    on_path = shutil.which(name, path=environment.get("PATH"))
    places = [os.path.join(folder, "bin", name) for folder in toolkits(environment)]
    places += [os.path.join(folder, name, name) for folder in toolkits(environment)]
    return on_path or next((place for place in places if os.access(place, os.X_OK)), "")


def pythons(environment):
    """Where a PyTorch may be, first to last."""
    found = [environment.get("SLUICE_PYTHON")]
    found += [os.path.join(environment[name], "bin", "python3") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
              if environment.get(name)]
    found.append(shutil.which("python3", path=environment.get("PATH")))
    return [path for path in dict.fromkeys(found) if path and os.access(path, os.X_OK)]


_TORCH = "import torch; print('torch', torch.__version__, torch.version.cuda, torch.cuda.is_available())"


@dataclass
class Torch:
    """The PyTorch that peers run on."""
    python: str = ""
    version: str = ""
    missing: str = ""  # why there is none


def find_torch(environment, run=run_process):
    tried = []
    for python in pythons(environment):
        words = run([python, "-c", _TORCH], 60).out.split()
        if words[:1] != ["torch"] or len(words) != 4:
            tried.append("%s has none" % python)
        elif words[3] != "True":
            tried.append("%s: torch %s sees no GPU" % (python, words[1]))
        else:
            return Torch(python, "%s, CUDA %s" % (words[1], words[2]))
    return Torch(missing="no PyTorch for this GPU: " + ("; ".join(tried) or "no python3"))


@dataclass
class Machine:
    """What facts found; parts look here for what they need."""
    card: str = ""  # by the driver's name; "": there is none
    facts: dict = field(default_factory=dict)  # for the report
    sanitizer: str = ""
    torch: Torch = field(default_factory=lambda: Torch(missing="nobody has looked for PyTorch"))
