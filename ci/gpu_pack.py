"""What ci/gpu takes along to a machine with a GPU: our programs, the scripts that run them and their peers, in one archive.

Needs the CUDA toolkit and Bazel; with `emulated` only Bazel.
"""
import json
import lzma
import os
import shutil
import subprocess
import tarfile

FOLDER = "sluice_gpu"  # of the archive
MOST_BYTES = 64 << 20

# By the name that the parts know them by.
PROGRAMS = {
    "cuda_info": "//framework/tools:cuda_info",
    "wrong_kernels": "//framework/testing:wrong_kernels",
    "cuda_kernels_test": "//framework/conformance:cuda_kernels_test",
    "cuda_elementwise_test": "//framework/conformance:cuda_elementwise_test",
    "cuda_rows_test": "//framework/conformance:cuda_rows_test",
    "cuda_updates_test": "//framework/conformance:cuda_updates_test",
    "parity_gpt": "//models/gpt:cuda_test",
    "parity_bert": "//models/bert:cuda_test",
    "parity_resnet": "//models/resnet:cuda_test",
    "parity_insightface": "//models/insightface:cuda_test",
    "parity_wide_and_deep": "//models/wide_and_deep:cuda_test",
    "gpu_step": "//bench:gpu_step",
    "gpu_steps": "//bench:gpu_steps",
    "gpu_kernels": "//bench:gpu_kernels",
}
# A rehearsal does without: they say nothing of an emulation, or take minutes on it.
_OF_CARDS_ALONE = ("cuda_info", "cuda_elementwise_test", "cuda_rows_test", "cuda_updates_test", "parity_gpt",
                   "parity_bert", "parity_resnet", "parity_insightface")

SCRIPTS = ("ci/gpu", "ci/gpu_command.py", "ci/gpu_machine.py", "ci/gpu_pack.py", "ci/gpu_parts.py", "ci/gpu_report.py",
           "ci/gpu_run.py", "bench/charts.py", "bench/figures.py", "bench/page.py", "bench/rooflines.py",
           "bench/step_lines.py", "bench/tables.py", "bench/peers/arcface_step_torch.py",
           "bench/peers/bert_step_torch.py", "bench/peers/gpt_sizes.py", "bench/peers/gpt_step_torch.py",
           "bench/peers/resnet_step_torch.py", "bench/peers/step_report.py", "bench/peers/torch_step.py",
           "bench/peers/wide_and_deep_step_torch.py")
DATA = ("models/gpt/testdata/fixed.txt",)  # that programs read

# Of glibc and gcc, which a machine with Python and a driver has; those of other distributions are newer than what we
# build with, and must be the ones that libraries of the driver are loaded beside.
_OF_EVERY_MACHINE = ("linux-vdso", "ld-linux-x86-64", "libc", "libm", "libgcc_s", "libstdc++")


class Error(Exception):
    """Why nothing was packed, for people."""


def programs_of(emulated):
    return {name: label for name, label in PROGRAMS.items() if not (emulated and name in _OF_CARDS_ALONE)}


def path_of(label):
    """Of what Bazel builds of a label, under bazel-bin."""
    return label[2:].replace(":", "/")


def run_tool(command, folder):
    """What a program of this machine printed; Error with its last lines if it failed."""
    try:
        ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise Error("%s: %s" % (command[0], error)) from error
    if ran.returncode != 0:
        raise Error("%s:\n%s" % (" ".join(command[:3]), (ran.stderr or ran.stdout)[-2000:]))
    return ran.stdout


def build(workspace, emulated, run=run_tool):
    """The folder that the programs lie in. The links bazel-bin and its like stay those of the build before."""
    config = [] if emulated else ["--config=cuda"]
    labels = sorted(programs_of(emulated).values())
    run(["./bazelw", "build", *config, "--experimental_convenience_symlinks=ignore", "--color=no", "--curses=no",
         *labels], workspace)
    return run(["./bazelw", "info", *config, "bazel-bin"], workspace).split()[-1]


def libraries_of(listed):
    """Paths of the shared libraries to pack, of what ldd says of a program; an Error for one that is missing here."""
    paths = set()
    for line in listed.splitlines():
        words = line.split()
        if os.path.basename(words[0]).split(".so")[0] in _OF_EVERY_MACHINE:
            continue
        if words[1:3] == ["=>", "not"]:
            raise Error("%s: the loader finds it nowhere" % words[0])
        paths.add(words[2] if words[1] == "=>" else words[0])
    return paths


def _revision(workspace, run):
    return run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], workspace).strip()


def manifest_of(workspace, folder, emulated, date, run=run_tool):
    """What a report says of the programs that it measured."""
    cuda = "the emulation on a CPU"
    if not emulated:
        # It prints what it was built with, then fails where there is no card.
        ran = subprocess.run([os.path.join(folder, "bin", "cuda_info")], stdout=subprocess.PIPE, text=True)
        cuda = ran.stdout.splitlines()[0].split(",")[0] if ran.stdout else "unknown"
    sizes = {name: os.path.getsize(os.path.join(folder, "bin", name)) for name in programs_of(emulated)}
    return {"revision": _revision(workspace, run), "cuda": cuda, "emulated": emulated, "packed": date,
            "programs": sizes}


def lay_out(workspace, built, folder, emulated, run=run_tool):
    """Makes the folder that is packed: programs, stripped, in bin/, the shared libraries that they need in lib/, scripts
    and data where they lie in the checkout."""
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(os.path.join(folder, "lib"))
    libraries = set()
    for name, label in programs_of(emulated).items():
        to = os.path.join(folder, "bin", name)
        run(["strip", "-o", to, os.path.join(built, path_of(label))], workspace)
        os.chmod(to, 0o755)
        libraries |= libraries_of(run(["ldd", to], workspace))
    for path in libraries:
        shutil.copy(path, os.path.join(folder, "lib", os.path.basename(path)))
    for script in SCRIPTS + DATA:
        to = os.path.join(folder, script)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.join(workspace, script), to)


def write_archive(folder, archive, most_bytes=MOST_BYTES):
    """Its size in bytes; an Error, and no archive, where it is too large. Programs have much in common: a dictionary that
    spans several of them makes it a fraction."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 128 << 20}]
    try:
        with lzma.open(archive, "wb", filters=filters) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(folder, FOLDER)
        size = os.path.getsize(archive)
    except OSError as error:
        raise Error("%s: %s" % (archive, error)) from error
    if size >= most_bytes:
        os.remove(archive)
        raise Error("the archive would be of %.1f MiB, and has to be smaller than %.1f" % (size / 2**20,
                                                                                         most_bytes / 2**20))
    return size


def pack(workspace, archive, emulated, date, scratch):
    """Builds and packs; the lines that say what came of it."""
    built = build(workspace, emulated)
    folder = os.path.join(scratch, FOLDER)
    lay_out(workspace, built, folder, emulated)
    manifest = manifest_of(workspace, folder, emulated, date)
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
    size = write_archive(folder, archive)
    return "packed: %s, %.1f MiB: %d programs of %.1f MiB, %s, revision %s" % (
        archive, size / 2**20, len(manifest["programs"]), sum(manifest["programs"].values()) / 2**20, manifest["cuda"],
        manifest["revision"])
