"""Runs a command in the virtual machine of rdma_vm_image.py, with programs of this machine."""
import base64
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import threading
import time

import rdma_vm_image

NO_RESULT = 125  # as of a command that could not be run
PASSED_LIMIT = 124


class Payload:
    """A disk with files that are at /payload in the machine, and the libraries that its programs need."""

    def __init__(self, files):
        self._folder = tempfile.TemporaryDirectory(prefix="rdma_vm")
        self.disk = pathlib.Path(self._folder.name) / "disk"
        root = pathlib.Path(self._folder.name) / "root"
        (root / "lib").mkdir(parents=True)
        for name, source in files.items():
            target = root / name
            shutil.copy(os.path.realpath(source), target)
            target.chmod(0o755)
            if target.open("rb").read(4) != b"\x7fELF":
                continue
            subprocess.run(["strip", target], check=True)
            for library in rdma_vm_image.libraries_of(target):
                copy = root / "lib" / os.path.basename(library)
                if not copy.exists():
                    shutil.copy(os.path.realpath(library), copy)
        with open(self.disk, "wb") as file:
            file.truncate(rdma_vm_image.PAYLOAD_BYTES)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", root, self.disk], check=True)
        shutil.rmtree(root)

    def close(self):
        self._folder.cleanup()


class Result:
    def __init__(self, code, text, seconds):
        self.code, self.text, self.seconds = code, text, seconds


def _read_all(end, to, echo):
    while data := end.recv(1 << 16):
        to.append(data)
        if echo:
            os.write(1, data)


def run(command, payload, limit, echo=False):
    """In a shell of the machine, in an empty folder; the machine is as new, and gone afterwards. What it prints on both streams."""
    image = rdma_vm_image.image()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rdma_vm") as name:
        work = pathlib.Path(name)
        state = ["-incoming", "exec:cat " + shlex.quote(f"{image}/state")]
        with subprocess.Popen(rdma_vm_image.qemu(image, work, payload.disk, state)) as process:
            late = threading.Timer(limit, process.kill)
            late.start()
            try:
                with rdma_vm_image.connect(f"{work}/output", process) as output, \
                        rdma_vm_image.connect(f"{work}/control", process) as control:
                    printed, said = [], []
                    readers = [threading.Thread(target=_read_all, args=args)
                               for args in ((output, printed, echo), (control, said, False))]
                    for reader in readers:
                        reader.start()
                    script = base64.b64encode(command.encode()).decode()
                    control.sendall(f"{time.time():.0f} {os.urandom(16).hex()} {script}\n".encode())
                    for reader in readers:
                        reader.join()
                    process.wait()
            finally:
                late.cancel()
                process.kill()
        seconds = time.monotonic() - begun
        status = b"".join(said).decode(errors="replace").strip()
        text = b"".join(printed).decode(errors="replace")
        if status.isdigit():
            return Result(int(status), text, seconds)
        if seconds >= limit:
            return Result(PASSED_LIMIT, text, seconds)
        return Result(NO_RESULT, text + (work / "console").read_text(errors="replace")[-2000:], seconds)
