"""The cases of hosts.py: what a network does to a job over four hosts, and what has to become of it."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import ssh_lab
from chaos_job import expect
from hosts_job import HostsJob, Training, run_alone
from hosts_network import Link, Network, address

CASES = {}
QUICK = ("bits", "bad_links", "kill", "half_open", "partition_heals")
# Each has a bandwidth and a delay of its own: bytes a second, seconds.
_UNLIKE = (Link(0.0002, 125e6), Link(0.001, 60e6), Link(0.002, 30e6), Link(0.005, 12.5e6))
_BAD = (Link(0.02, 125e6, 0.01),) * 4
_LONG = 100000  # steps of a job that is ended
_DISORDER = (Link(0.002, 125e6, 0.0, twice=0.05, late=0.05),) * 4
_AT_ONCE = 1.0  # seconds in which all ranks have ended where a connection says that it is over, and _LOST where nothing comes any more;
_LOST = 5.0  # in which all ranks have ended, besides what they wait for a core that others have


def case(function):
    CASES[function.__name__] = function
    return function


class Lab:
    """A network of four hosts and the jobs of a case, until it is closed."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        folder.mkdir()
        self.notes = []  # for people
        self.skipped = ""
        self.network = Network(4)
        self.network.set_links(list(_UNLIKE))
        self._jobs = []
        self._alone = {}

    def job(self, training, **options):
        job = HostsJob(self.programs, self.folder / f"job{len(self._jobs)}", training, self.network, **options)
        self._jobs.append(job)
        return job

    def alone(self, training):
        """What one process writes."""
        key = str(training), training.steps
        if key not in self._alone:
            self._alone[key] = run_alone(self.programs, self.folder / f"alone{len(self._alone)}", training)
        return self._alone[key]

    def expect_bits(self, job):
        _expect_equal(job.result(), self.alone(job.layout), f"{job.layout}: over four hosts and in one process")

    def close(self):
        for job in self._jobs:
            job.close()
        self.network.close()


def _expect_equal(got, expected, what):
    for name in sorted(set(got[0]) | set(expected[0])):
        expect(got[0].get(name) == expected[0].get(name), f"{what}: the checkpoint's {name or 'manifest'} differs")
    expect(got[1] == expected[1], f"{what}: the log differs")


def _train(lab, training):
    job = lab.job(training)
    begin = time.monotonic()
    job.start()
    job.finish()
    lab.expect_bits(job)
    lab.notes.append(f"{training}: the bits of one process, {time.monotonic() - begin:.1f} s")
    return job


def _expect_struck(lab, *faults):
    """The network has done it to one frame of 200 at least: a job that met none of it proves nothing."""
    counts = lab.network.counts()
    for fault in faults:
        expect(counts[fault] > counts["frames"] / 200, f"expected frames that are {fault}, got {counts}")
    lab.notes.append(f"frames: {counts}")


@case
def bits(lab):
    """GPT on two layouts and Wide & Deep on one write what one process writes"""
    for training in (Training("gpt", "data=2 model=2", 10), Training("gpt", "pipe=4", 10, ("--layers=4", "--micro_batches=4")),
                     Training("wide_and_deep", "data=2 model=2", 10)):
        _train(lab, training)


@case
def bad_links(lab):
    """the same bits where every link takes 20 ms and loses a hundredth"""
    train_layout(lab, Training("gpt", "data=2 model=2", 4))
    _expect_struck(lab, "lost")


@case
def disorder(lab):
    """the same bits where one frame of twenty comes twice, and one of twenty behind later ones"""
    lab.network.set_links(list(_DISORDER))
    _train(lab, Training("gpt", "data=2 model=2", 10))
    _expect_struck(lab, "twice", "overtaken")


@case
def measured_links(lab):
    """--links=measure sees how slow a network is, all ranks take it, and the bits are those of one process"""
    delay, rate = 0.005, 20e6
    lab.network.set_links([Link(delay, rate)] * 4)
    job = _train(lab, Training("gpt", "data=4", 4, ("--links=measure",)))
    links = dict(line.split("=") for line in (job.folder / "run" / "links.txt").read_text().split())
    latency, measured = float(links["network_latency_nanoseconds"]), float(links["network_bytes_per_second"])
    expect(latency >= 1e9 * delay, f"expected a latency of {delay} s and more, got {latency} ns")
    expect(measured <= rate, f"expected {rate:.0f} bytes a second and less, got {measured:.0f}")
    lab.notes.append(f"the network takes {latency / 1e6:g} ms, {measured / 1e6:g} MB/s")


def _broken(lab, break_it, at_fault, limit=_LOST, **options):
    """A job that trains, what breaks it, and how it ends. `at_fault`: the ranks whom the others have to name."""
    job = lab.job(Training("gpt", "data=4", _LONG), **options)
    job.start()
    job.wait_for_step(3)
    ranks = job.ranks()
    expect(len(ranks) == 4, f"expected four ranks, got {sorted(ranks)}")
    begin = time.monotonic()
    break_it(job)
    ended = job.ends(ranks, begin, limit)
    others = {rank: seconds for rank, seconds in ended.items() if rank not in at_fault}
    lab.network.heal()  # a server of ssh that was cut off learns that its caller has gone
    while not job.over():
        job.check_time()
        time.sleep(0.01)
    job.expect_nothing_left(12)  # ssh and the agent beyond it need some seconds
    expect(job.launcher.returncode not in (0, None), "the launcher says that all went well")
    for rank in others:
        said = job.said(rank)
        expect(any(f"rank {one}" in said for one in at_fault), f"rank {rank} does not name rank {at_fault}: {said!r}")
    lab.notes.append("ended after, by rank: " + ", ".join(f"{rank}: {seconds:.2f} s" for rank, seconds in sorted(ended.items())))
    for rank in sorted(ended):
        lab.notes.append(f"rank {rank}: {job.said(rank)[:220]}")
    return job


@case
def kill(lab):
    """kill -9 of a rank: the others know at once"""
    _broken(lab, lambda job: job.ranks()[2].send(signal.SIGKILL), [2], _AT_ONCE)


@case
def half_open(lab):
    """a host whose packets are dropped both ways, as when its power fails"""
    _broken(lab, lambda job: lab.network.isolate({2}), [2])


@case
def mute(lab):
    """one way: what a host sends is dropped"""
    _broken(lab, lambda job: lab.network.cut({(2, other) for other in (0, 1, 3)}), [2])


@case
def deaf(lab):
    """one way: what is sent to a host is dropped"""
    _broken(lab, lambda job: lab.network.cut({(other, 2) for other in (0, 1, 3)}), [2])


@case
def one_pair(lab):
    """two hosts that do not hear each other any more, and all others do"""
    _broken(lab, lambda job: lab.network.cut({(1, 2), (2, 1)}), [1, 2])


@case
def black_hole(lab):
    """packets of more than 500 bytes are lost on a host's way, and nobody is told"""
    _broken(lab, lambda job: lab.network.swallow(2, 500), [2])


@case
def reset(lab):
    """the connections between two hosts are reset"""
    _broken(lab, lambda job: expect(lab.network.reset(1, 2) > 0, "no connection to reset"), [1, 2], _AT_ONCE)


@case
def partition_heals(lab):
    """two hosts of four are cut off for two seconds: the job goes on to the same bits"""
    job = lab.job(Training("gpt", "data=2 model=2", 20))
    job.start()
    job.wait_for_step(5)
    lab.network.isolate({2, 3})
    time.sleep(2)
    step = job.step()
    lab.network.heal()
    job.finish()
    lab.expect_bits(job)
    lab.notes.append(f"stood still at step {step}, went on to 20")


@case
def partition_stays(lab):
    """two hosts of four are cut off: both sides stop, and no other job gets the folder before"""
    training = Training("gpt", "data=2 model=2", 80, ("--save_every=10",))
    job = lab.job(training)
    job.start()
    job.wait_for_step(15)
    ranks, begin = job.ranks(), time.monotonic()
    lab.network.isolate({2, 3})
    rival = subprocess.run([lab.programs["gpt"], f"--resume={job.run}"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    expect("expected no other process at work" in rival.stderr, f"two jobs have one folder: {rival.stderr[-500:]!r}")
    ended = job.ends(ranks, begin, _LOST)
    lab.notes.append("ended after, by rank: " + ", ".join(f"{rank}: {seconds:.2f} s" for rank, seconds in sorted(ended.items())))
    while not job.over():
        time.sleep(0.01)
    job.expect_nothing_left()
    lab.network.heal()
    job.start()
    job.finish()
    lab.expect_bits(job)


@case
def fewer_hosts(lab):
    """a job that lost two hosts goes on with the others, to what one process writes from that checkpoint"""
    job = lab.job(Training("gpt", "data=2 model=2", 80, ("--save_every=10",)))
    job.start()
    job.wait_for_step(25)
    ranks, begin = job.ranks(), time.monotonic()
    lab.network.isolate({2, 3})
    job.ends(ranks, begin, _LOST)
    while not job.over():
        time.sleep(0.01)
    job.expect_nothing_left()
    last = job.checkpoints()[-1]
    undisturbed = lab.folder / "undisturbed"
    shutil.copytree(job.run, undisturbed)
    fewer = Training("gpt", "data=2", int(last.name.partition("-")[2]) + 30, ("--save_every=10",), ranks=2)
    job.layout = fewer
    job.choose_hosts([0, 1])
    job.start()
    job.finish()
    expected = run_alone(lab.programs, lab.folder / "alone", fewer, resume=undisturbed)
    _expect_equal(job.result(), expected, f"on two hosts from {last.name}")
    lab.notes.append(f"went on from {last.name} with {fewer}")


@case
def clocks(lab):
    """hosts whose clocks differ by days, and are set an hour forth and back in between: the same bits"""
    fake = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    offset = lab.folder / "offset"
    offset.write_text("+100000000")  # three years
    variables = f"LD_PRELOAD={fake} FAKETIME_TIMESTAMP_FILE={offset} FAKETIME_NO_CACHE=1 DONT_FAKE_MONOTONIC=1" if fake else ""
    apart = "--monotonic $((${{0#host}} * 100000)) --boottime $((${{0#host}} * 100000))"
    job = lab.job(Training("gpt", "data=2 model=2", 60), shell="sh -c 'exec nsenter --net={spaces}/$0 unshare --time --fork "
                  f"--kill-child {apart} env {variables} sh -c \"$1\"'")
    job.start()
    job.wait_for_step(3)
    spaces = {os.stat(f"/proc/{process.pid}/ns/time").st_ino for process in job.ranks().values()}
    expect(len(spaces) == 4, f"expected four clocks, got {len(spaces)}")
    began = int(re.search(r"since (\d{4})", (job.run / "run.lock").read_text(encoding="utf-8"))[1])
    expect(not fake or began >= time.localtime().tm_year + 3, f"expected a time of day of three years later, got {began}")
    for step, text in ((10, "+3600"), (20, "-3600"), (30, "+86400")):
        job.wait_for_step(step)
        offset.write_text(text)
    job.finish()
    lab.expect_bits(job)
    lab.notes.append("clocks of hosts 100,000 s apart; time of day " + ("set three times" if fake else "not set: no faketime"))


@case
def ssh(lab):
    """by ssh and a server on each host: the same bits; a host that is cut off, for ssh too, ends the job everywhere"""
    lab.skipped = ssh_lab.missing()
    if lab.skipped:
        return
    folder = lab.folder / "ssh"
    folder.mkdir()
    servers = ssh_lab.SshServers(str(folder), str(folder / "cache"))
    try:
        for host in range(4):
            servers.start([f"host{host}"], address(host), 22, lab.network.command(host, []))
        job = lab.job(Training("gpt", "data=2 model=2", 10), shell=servers.remote_shell, launcher_host=0)
        job.start()
        job.finish()
        lab.expect_bits(job)
        _broken(lab, lambda job: lab.network.isolate({2}), [2], shell=servers.remote_shell, launcher_host=0)
    finally:
        servers.stop()


def train_layout(lab, training):
    """The same bits where every link takes 20 ms and loses a hundredth."""
    lab.network.set_links(list(_BAD))
    _train(lab, training)


# Of those that each model's parity tests have, what flags of its trainer can say.
LAYOUTS = [
    *(Training("gpt", mesh, 4, more) for mesh, more in (
        ("data=2", ()), ("data=3", ()), ("data=4", ()), ("model=2", ()), ("model=4", ()), ("pipe=2", ()),
        ("pipe=2", ("--micro_batches=4",)), ("pipe=4", ("--layers=4", "--micro_batches=4")), ("data=2 model=2", ()),
        ("data=2 model=2 pipe=2", ()), ("data=2 model=2 pipe=2", ("--micro_batches=2",)), ("data=2", ("--micro_batches=2",)),
        ("data=2", ("--micro_batches=3",)), ("data=2", ("--script_length=1",)),
        ("data=2 model=2 pipe=2", ("--micro_batches=2", "--script_length=1")), ("data=2", ("--zero=1",)),
        ("data=2 model=2", ("--zero=1",)), ("data=2", ("--zero=2", "--micro_batches=2")), ("data=2 model=2", ("--zero=3",)),
        ("data=4", ("--zero=3",)), ("data=2 pipe=2", ("--zero=3", "--micro_batches=4")),
        ("data=2 model=2", ("--precision=bf16",)))),
    *(Training("bert", mesh, 4, more) for mesh, more in (
        ("data=2", ()), ("data=3", ()), ("model=2", ()), ("model=4", ()), ("model=3", ()), ("data=2 model=2", ()), ("pipe=2", ()),
        ("pipe=4", ("--layers=4", "--micro_batches=4")), ("data=2", ("--micro_batches=2",)),
        ("data=2 pipe=2", ("--micro_batches=2",)), ("data=2 model=2 pipe=2", ("--micro_batches=2",)), ("data=2", ("--zero=1",)),
        ("data=2 model=2", ("--micro_batches=2", "--zero=3")))),
    *(Training("resnet", mesh, 2, more) for mesh, more in (
        ("data=2", ()), ("data=3", ()), ("data=4", ("--groups=4",)), ("model=2", ()), ("data=2 model=2", ()),
        ("data=2 model=2", ("--split_stages=2",)), ("model=3", ("--split_stages=4",)),
        ("model=2", ("--split_stages=4", "--depth=50")), ("data=2", ("--depth=50",)), ("pipe=2", ()),
        ("pipe=2", ("--micro_batches=4", "--groups=4")),
        ("data=2 pipe=2", ("--micro_batches=2", "--groups=2")),
        ("data=2 model=2 pipe=2", ("--micro_batches=2", "--groups=4", "--split_stages=1")), ("data=2", ("--zero=1",)),
        ("data=2", ("--micro_batches=2", "--groups=2", "--zero=3")))),
    *(Training("insightface", mesh, 2, more) for mesh, more in (
        ("data=2", ()), ("data=3", ()), ("model=2", ()), ("model=3", ()), ("model=4", ("--groups=4",)), ("data=2 model=2", ()),
        ("data=2 model=2", ("--margin=0", "--additive_margin=0.4")), ("pipe=2", ()),
        ("pipe=2", ("--micro_batches=4", "--groups=4")), ("data=2 model=2 pipe=2", ("--micro_batches=2", "--groups=2")),
        ("data=2 model=2", ("--zero=1",)), ("data=2", ("--classes=12", "--sample_rate=0.4", "--sample_groups=4")),
        ("model=4", ("--classes=12", "--groups=4", "--sample_rate=0.4", "--sample_groups=4")))),
    *(Training("wide_and_deep", mesh, 4, more) for mesh, more in (
        ("data=2", ()), ("data=5", ()), ("model=2", ()), ("model=5", ()), ("model=2", ("--split_columns",)),
        ("model=3", ("--split_columns",)), ("table=2", ()), ("table=3", ("--split_columns",)), ("data=2 model=2", ()),
        ("data=2 model=2", ("--split_columns",)), ("data=2 table=2", ()), ("model=2 table=2", ()), ("pipe=2", ()),
        ("pipe=3", ("--hidden=16,8,8", "--micro_batches=4")), ("model=2", ("--micro_batches=2",)),
        ("data=2 model=2 pipe=2", ("--micro_batches=2",)), ("data=2", ("--zero=1",)),
        ("data=2 model=2", ("--micro_batches=2", "--zero=3")))),
]
