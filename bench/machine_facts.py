"""What a reader must know of the machine that figures come from. Linux; what is not known is said to be so."""

import os
import platform
import subprocess

_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8")


def _cpu_fields(text):
    fields = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return fields


def cpu_name(cpuinfo):
    """Model, family and model number: virtual machines often give the same name to different CPUs."""
    fields = _cpu_fields(cpuinfo)
    return "%s (family %s, model %s)" % (fields.get("model name", "unknown"), fields.get("cpu family", "?"),
                                         fields.get("model", "?"))


def cpu_flags(cpuinfo):
    flags = _cpu_fields(cpuinfo).get("flags", "").split()
    return [flag for flag in _FLAGS if flag in flags]


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def revision(workspace):
    command = ["git", "-C", workspace, "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def packages(python, names):
    """Versions of those packages that a Python has, as ["torch 2.15", ...]."""
    script = ("import importlib.metadata as m, sys\nfor n in sys.argv[1:]:\n"
              " try: print(n, m.version(n))\n except m.PackageNotFoundError: pass\n")
    try:
        out = subprocess.run([python, "-c", script] + names, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return out.splitlines()


def describe(workspace, python, original_python):
    cpuinfo = _read("/proc/cpuinfo")
    memory = _read("/proc/meminfo").splitlines()
    peers = packages(python, ["torch", "jax", "jaxlib", "numpy"]) + packages(original_python, ["oneflow"])
    system = dict(line.partition("=")[::2] for line in _read("/etc/os-release").splitlines())
    return {
        "cpu": cpu_name(cpuinfo),
        "cores": str(os.cpu_count()),
        "flags": " ".join(cpu_flags(cpuinfo)),
        "memory": memory[0].split(":")[1].strip() if memory else "unknown",
        "system": "%s, Linux %s" % (system.get("PRETTY_NAME", '"unknown"').strip('"'), platform.release()),
        "revision": revision(workspace),
        "peers": ", ".join(peers) or "none found",
        "load average at the start": "%.2f" % os.getloadavg()[0],
    }
