"""The virtual machine of rdma_vm.py: a Debian kernel, which has soft-RoCE, with busybox, saved as it stands once it is up."""
import contextlib
import glob
import hashlib
import json
import lzma
import os
import pathlib
import pwd
import re
import shlex
import shutil
import socket
import struct
import subprocess
import tempfile
import time

_HERE = pathlib.Path(__file__).parent
_INIT = _HERE / "rdma_vm_init.sh"
_QEMU = "qemu-system-x86_64"
_PROGRAMS = {_QEMU: "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "mke2fs": "e2fsprogs", "ip": "iproute2",
             "tc": "iproute2", "rdma": "iproute2", "strip": "binutils", "dpkg-deb": "dpkg", "apt-get": "apt"}
_PROVIDERS = "/usr/lib/*/libibverbs/librxe-rdmav*.so"
_LIBVERBS = "/usr/lib/*/libibverbs.so.1"
# What these need comes by itself; soft-RoCE asks the kernel's cryptography for crc32 by name, so that nothing says it.
_MODULES = ["virtio_pci", "virtio_console", "virtio_blk", "ext4", "crc32c_generic", "veth", "sch_netem", "crc32_generic", "ib_uverbs",
            "rdma_rxe"]
_MEMORY_MIB = 768
PAYLOAD_BYTES = 256 << 20  # of the disk that a run brings; part of the saved state
_BOOT_LIMIT = 120  # seconds
_KEPT_DAYS = 14


class Missing(Exception):
    """What this machine would need for a virtual machine with RDMA."""


def check_programs():
    missing = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    if not glob.glob(_PROVIDERS):
        missing.append("ibverbs-providers")
    if missing:
        raise Missing("no " + ", ".join(missing))


def _cache():
    # Not by HOME, which tests are not told.
    home = pwd.getpwuid(os.getuid()).pw_dir
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or f"{home}/.cache") / "sluice" / "rdma_vm"


def _key():
    """Of all that an image is made of but the kernel, which may be older than the newest."""
    parts = [pathlib.Path(__file__).read_bytes(), _INIT.read_bytes()]
    for path in [shutil.which(program) for program in sorted(_PROGRAMS)] + glob.glob(_PROVIDERS) + glob.glob(_LIBVERBS):
        facts = os.stat(path)
        parts.append(f"{path} {facts.st_size} {facts.st_mtime_ns}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _kernel_package(folder):
    """Unpacks the newest kernel of this Debian."""
    text = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", text)
    if not found:
        raise Missing("no package linux-image-amd64 in apt's lists")
    got = subprocess.run(["apt-get", "download", "-q", found[1]], cwd=folder, capture_output=True, text=True, check=False)
    packages = glob.glob(f"{folder}/{found[1]}_*.deb")
    if got.returncode != 0 or not packages:
        raise Missing(f"{found[1]} cannot be downloaded: {got.stderr.strip().splitlines()[-1:]}")
    subprocess.run(["dpkg-deb", "-x", packages[0], f"{folder}/kernel"], check=True)
    return pathlib.Path(folder) / "kernel"


def _unpacked_kernel(image):
    """The ELF inside a bzImage: it is up in a third of the time, as nothing is unpacked in the machine."""
    setup = image[0x1F1] or 4
    offset, size = struct.unpack_from("<II", image, 0x248)
    packed = image[(setup + 1) * 512 + offset:][:size]
    if not packed.startswith(b"\xfd7zXZ\0"):
        raise Missing("a kernel that is packed by xz")
    return lzma.LZMADecompressor().decompress(packed)


def _depends(module):
    data = module.read_bytes()
    found = re.search(rb"\0depends=([^\0]*)\0", data)
    return [name for name in found[1].decode().split(",") if name] if found else []


def _modules_in_order(folder):
    by_name = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    builtin = {pathlib.Path(line).stem.replace("-", "_") for line in (folder / "modules.builtin").read_text().splitlines()}
    order = []

    def add(name):
        name = name.replace("-", "_")
        if name in builtin or by_name.get(name) in order:
            return
        if name not in by_name:
            raise Missing(f"no module {name} in this kernel")
        for other in _depends(by_name[name]):
            add(other)
        order.append(by_name[name])

    for name in _MODULES:
        add(name)
    return order


def libraries_of(program):
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", text)


def _make_files(kernel, to):
    """vmlinux and files.cpio, all that there is before a run brings more."""
    (to / "vmlinux").write_bytes(_unpacked_kernel(next((kernel / "boot").glob("vmlinuz-*")).read_bytes()))
    root = to / "root"
    for folder in ("bin", "dev", "proc", "sys", "root", "modules", "usr/bin", "etc/libibverbs.d"):
        (root / folder).mkdir(parents=True)
    modules = _modules_in_order(next((kernel / "lib/modules").iterdir()))
    for path in modules:
        shutil.copy(path, root / "modules" / f"{path.stem}.ko")
    (root / "modules" / "order").write_text("\n".join(path.stem for path in modules))
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    libraries = set(glob.glob(_LIBVERBS)) | set(glob.glob(_PROVIDERS))
    for name in ("ip", "tc", "rdma"):
        shutil.copy(os.path.realpath(shutil.which(name)), root / "usr/bin" / name)
        libraries.update(libraries_of(shutil.which(name)))
    for path in list(libraries):
        libraries.update(libraries_of(path))
    for path in libraries:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), target)
    (root / "etc/libibverbs.d/rxe.driver").write_text("driver rxe\n")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    shutil.copy(_INIT, root / "init")
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(to / "files.cpio", "wb") as file:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root, input=names.encode(), stdout=file, check=True)
    shutil.rmtree(root)


def qemu(image, work, disk, more):
    """The command line; a state that was saved under another one cannot be gone on from."""
    return [_QEMU, "-accel", "tcg", "-cpu", "max", "-M", "pc", "-smp", "1", "-m", str(_MEMORY_MIB), "-nodefaults", "-no-user-config",
            "-display", "none", "-no-reboot", "-kernel", f"{image}/vmlinux", "-append",
            "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on",
            "-serial", f"file:{work}/console", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=output,server=on,wait=off,path={work}/output", "-device", "virtserialport,chardev=output,nr=1",
            "-chardev", f"socket,id=control,server=on,wait=off,path={work}/control", "-device", "virtserialport,chardev=control,nr=2",
            "-drive", f"file={disk},format=raw,if=none,id=disk,cache=unsafe", "-device", "virtio-blk-pci,drive=disk",
            "-qmp", f"unix:{work}/qmp,server=on,wait=off"] + more


def connect(path, process):
    """To a socket that QEMU makes."""
    while True:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(path)
            return end
        except OSError:
            end.close()
            if process.poll() is not None:
                raise RuntimeError(f"QEMU has ended with {process.returncode}") from None
            time.sleep(0.005)


def _ask(stream, command, **arguments):
    stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
    stream.flush()
    while True:
        answer = json.loads(stream.readline())
        if "error" in answer:
            raise RuntimeError(f"QEMU, {command}: {answer['error']}")
        if "return" in answer:
            return answer["return"]


def _wait_until_ready(process, console):
    limit = time.monotonic() + _BOOT_LIMIT
    while not console.exists() or b"RDMA_VM_READY" not in console.read_bytes():
        if process.poll() is not None or time.monotonic() > limit:
            text = console.read_text(errors="replace")[-2000:] if console.exists() else ""
            raise RuntimeError(f"the virtual machine does not come up: {text}")
        time.sleep(0.05)
    time.sleep(0.3)  # it still has to wait for its line


def _save_state(image, work):
    disk = work / "disk"
    with open(disk, "wb") as file:
        file.truncate(PAYLOAD_BYTES)
    with subprocess.Popen(qemu(image, work, disk, ["-initrd", f"{image}/files.cpio"])) as process:
        try:
            # The machine looks for its ports while it comes up: they have to have somebody at the other end.
            with connect(f"{work}/output", process), connect(f"{work}/control", process):
                _wait_until_ready(process, work / "console")
                with connect(f"{work}/qmp", process) as end, end.makefile("rwb") as stream:
                    stream.readline()
                    _ask(stream, "qmp_capabilities")
                    _ask(stream, "migrate-set-parameters", **{"max-bandwidth": 1 << 33})
                    _ask(stream, "migrate", uri="exec:cat > " + shlex.quote(f"{image}/state"))
                    while (status := _ask(stream, "query-migrate")["status"]) != "completed":
                        if status == "failed":
                            raise RuntimeError("the state of the virtual machine cannot be saved")
                        time.sleep(0.02)
        finally:
            process.kill()


def _remove_old(cache):
    for folder in cache.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _KEPT_DAYS * 86400:
                shutil.rmtree(folder)


def image():
    """The folder of an image, which is made if it is not there yet. Missing says what that needs."""
    check_programs()
    cache = _cache()
    folder = cache / _key()
    if folder.exists():
        os.utime(folder)
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    _remove_old(cache)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        made = pathlib.Path(scratch) / "image"
        made.mkdir()
        _make_files(_kernel_package(scratch), made)
        work = pathlib.Path(scratch) / "work"
        work.mkdir()
        _save_state(made, work)
        with contextlib.suppress(OSError):  # another one was faster
            made.rename(folder)
    return folder
