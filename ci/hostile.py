"""What careless and hostile users do to a run, done to the programs as they are built.

    bazel run //ci:hostile                    # all of it, some minutes
    bazel run //ci:hostile -- closed_stdout   # one case, or several
    bazel run //ci:hostile -- --list
    bazel test //ci:hostile_test              # the quick ones; .ci/run has it

A case starts the trainer, or a program beside it, in a folder of its own, does something to it, and says
what must hold afterwards: an exit code, one line of error that names what is wrong, and that every
checkpoint which was there before can still be loaded. A case that fails leaves its folder and says where.
"""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import hostile_lab
from hostile_lab import CAMPAIGN, DEADLINE, NOBODY, QUICK, TINY, can_become_nobody, case, expect


def limit(kind, size):
    return lambda: resource.setrlimit(kind, (size, size))


# ---- folders: nobody overwrites another's work ----

@case(QUICK)
def two_runs_into_one_folder(lab):
    first = lab.begin_training("--out=run", "--save_every=5")
    lab.await_step(first, "run", 3)
    second = lab.train("--out=run")
    expect(second.code in (1, 2) and "run" in second.error, f"exit {second.code}: {second.error}")
    lab.resume("run", "--steps=20").expect(1, str(first.pid))
    first.send_signal(signal.SIGINT)
    lab.end(first).expect(0)
    steps = lab.steps_logged("run")
    expect(steps == list(range(1, len(steps) + 1)), "the log has every step once")
    lab.expect_all_loadable("run")


@case(QUICK)
def a_killed_run_leaves_no_lock(lab):
    first = lab.begin_training("--out=run", "--save_every=5")
    lab.await_step(first, "run", 12)
    first.kill()
    lab.end(first)
    lab.resume("run", "--steps=1000000", "--explain").expect(0)
    last = int(lab.checkpoints("run")[-1].name[5:])
    lab.resume("run", f"--steps={last + 2}").expect(0)


@case(CAMPAIGN)
def two_runs_at_once_many_times(lab):
    for round_ in range(12):
        runs = [lab.begin_training(f"--out=run{round_}", "--save_every=2", steps=20) for _ in range(2)]
        codes = sorted(lab.end(run).code for run in runs)
        expect(codes in ([0, 1], [0, 2]), f"one of two runs goes on, got codes {codes}")
        lab.expect_all_loadable(f"run{round_}")


@case(QUICK)
def runs_that_start_in_one_second(lab):
    runs = [lab.begin_training(steps=2) for _ in range(4)]
    for run in runs:
        lab.end(run).expect(0)
    folders = list((lab.folder / "runs").iterdir())
    expect(len(folders) == 4, f"expected a folder a run, got {[x.name for x in folders]}")
    for folder in folders:
        lab.expect_all_loadable(folder.relative_to(lab.folder))


@case(QUICK)
def closed_descriptors(lab):
    def close():
        for descriptor in (0, 1, 2):
            os.close(descriptor)

    for round_ in range(3):
        run = lab.begin_training(f"--out=run{round_}", "--save_every=2", steps=8, before=close,
                                 stdin=None, stdout=None, stderr=None)
        lab.end(run).expect(0)
        lab.expect_all_loadable(f"run{round_}")


def change_manifest(lab, checkpoint, change):
    """Seals what it changes again, as someone would who gives it away."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    lab.run("seal_manifest", [str(path)]).expect(0)


@case(QUICK)
def a_checkpoint_given_away_writes_nothing_it_should_not(lab):
    lab.train("--out=run").expect(0)
    victim = lab.folder / "victim.txt"
    victim.write_text("precious")
    for name in ("explain_html", "trace", "machine"):
        shutil.rmtree(lab.folder / "given", ignore_errors=True)
        shutil.copytree(lab.checkpoints("run")[-1], lab.folder / "given")

        def plant(manifest, name=name):
            manifest["options"][name] = str(victim)
        change_manifest(lab, lab.folder / "given", plant)
        ended = lab.resume("given", "--steps=8", "--out=after")
        ended.expect(2, name)
        expect(victim.read_text() == "precious", f"--{name} of a checkpoint wrote {victim}")


@case(QUICK)
def other_data_at_resume(lab):
    lab.train("--out=run").expect(0)
    with open(lab.folder / "text.txt", "a") as text:
        text.write("more of it, and not what the run has seen")
    lab.resume("run", "--steps=8").expect(1, "digest")
    lab.resume("run", "--steps=8", "--change_data").expect(0)


@case(QUICK)
def a_runs_folder_is_never_data(lab):
    lab.train("--out=run").expect(0)
    lab.run("train", [*TINY, "--data=run", "--steps=2", "--out=other"]).expect(2, "folder of a run")
    (lab.folder / "texts").mkdir()
    shutil.move(lab.folder / "text.txt", lab.folder / "texts/text.txt")
    lab.run("train", [*TINY, "--data=texts", "--steps=4", "--out=texts/run"]).expect(0)
    lab.resume("texts/run", "--steps=6").expect(0)  # or its own log would be other data


@case(QUICK)
def older_runs_left_higher_numbers(lab):
    lab.train("--out=run", steps=9).expect(0)
    for out in ("new", "run"):
        shutil.copytree(lab.checkpoints("run")[0], lab.folder / out / "checkpoints/step-999999")
    lab.train("--out=new", "--keep=1", steps=4).expect(2, "new")
    lab.resume("run/checkpoints/step-000009", "--out=run", "--keep=1", "--steps=10")
    for name in ("step-000009", "step-000010"):
        path = lab.folder / "run/checkpoints" / name
        if path.exists():
            lab.expect_loadable(path, int(name[5:]))
    expect(lab.checkpoints("run")[0].name != "step-999999", "the checkpoint just written was pruned")


@case(QUICK)
def a_resume_that_fails_changes_nothing(lab):
    lab.train("--out=run").expect(0)
    before = {x: x.read_bytes() for x in (lab.folder / "run").rglob("*") if x.is_file() and "lock" not in x.name}
    for bad in (["--heads=4"], ["--data=nowhere.txt"], ["--mesh=dta=2"], ["--trace=/nowhere/trace.json"]):
        ended = lab.resume("run", "--steps=9", *bad)
        expect(ended.code != 0, f"{bad[0]} was taken")
        for path, text in before.items():
            expect(path.exists() and path.read_bytes() == text, f"{bad[0]} changed {path.name}")


@case(QUICK)
def a_run_is_found_however_it_is_named(lab):
    lab.train("--out=run").expect(0)
    lab.resume("run/checkpoints/step-000006/", "--steps=7").expect(0)
    lab.resume("run/", "--steps=8").expect(0)
    expect(lab.steps_logged("run") == list(range(1, 9)), "a name with a slash began another run")
    expect(not (lab.folder / "runs").exists(), "a name with a slash began another run")


@case(QUICK)
def what_cannot_be_read_is_not_damaged(lab):
    if os.geteuid() == 0 and not can_become_nobody():
        print("    (needs another user, who may not read everything)")
        return
    lab.train("--out=run", "--save_every=2").expect(0)
    lab.let_nobody_in()
    newest = lab.checkpoints("run")[-1]
    for path in (newest, *newest.iterdir()):
        os.chmod(path, 0)
    for path in [lab.folder, *lab.folder.rglob("*")]:
        if newest not in (path, *path.parents):
            os.chmod(path, 0o777 if path.is_dir() or path.name == "train" else 0o666)
    before = (lab.folder / "run/log.jsonl").read_bytes()
    become = (lambda: os.setuid(NOBODY)) if os.geteuid() == 0 else None
    ended = lab.resume("run", "--steps=8", before=become)
    expect(ended.code != 0, "a checkpoint that could not be read was passed over")
    expect(newest.exists(), "a checkpoint that could not be read was set aside")
    expect((lab.folder / "run/log.jsonl").read_bytes() == before, "lines of the log were dropped")
    for path in (newest, *newest.parent.glob(newest.name + "/*")):
        os.chmod(path, 0o777)


# ---- the process: signals, limits, descriptors ----

def stop_by(lab, sent, out):
    run = lab.begin_training(f"--out={out}")
    lab.await_step(run, out, 3)
    run.send_signal(sent)
    lab.end(run).expect(0)
    lab.expect_all_loadable(out)


@case(QUICK)
def signals_save_and_stop(lab):
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        stop_by(lab, sent, sent.name)


@case(CAMPAIGN)
def sixty_signals(lab):
    for n in range(60):
        run = lab.begin_training(f"--out=run{n}", "--save_every=3")
        time.sleep(random.Random(n).uniform(0, 1.5))
        run.send_signal(random.Random(n).choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
        lab.end(run)
        if lab.checkpoints(f"run{n}"):
            lab.expect_loadable(lab.checkpoints(f"run{n}")[-1], int(lab.checkpoints(f"run{n}")[-1].name[5:]))
        shutil.rmtree(lab.folder / f"run{n}", ignore_errors=True)


@case(QUICK)
def a_reader_that_leaves(lab):
    run = lab.begin_training("--out=run", steps=40)
    run.stdout.readline()
    run.stdout.close()
    run.stdout = None
    lab.end(run).expect(0)
    lab.expect_all_loadable("run")


@case(QUICK)
def files_that_may_not_grow(lab):
    ended = lab.train("--out=run", "--save_every=2", before=limit(resource.RLIMIT_FSIZE, 2000))
    expect(ended.code == 1, f"expected exit 1, got {ended.code}")
    expect("too large" in ended.error, ended.error[-300:])
    expect(not lab.checkpoints("run"), "a checkpoint that was cut short stands")


@case(QUICK)
def output_that_cannot_be_written(lab):
    with open("/dev/full", "w") as full:
        for arguments in (["--help"], [*TINY, "--data=text.txt", "--explain"]):
            lab.run("train", arguments, stdout=full).expect(1, "cannot write the output")
    lab.train("--out=sampled").expect(0)
    with open("/dev/full", "w") as full:
        lab.resume("sampled", "--sample", "--sample_length=9", stdout=full).expect(1, "cannot write the output")
    for flag in ("trace", "explain_html"):
        lab.resume("sampled", f"--{flag}=text.txt").expect(2, f"--{flag}", "--data")
        lab.resume("sampled", f"--{flag}=sampled/log.jsonl").expect(2, f"--{flag}", "has written")
        for path in ("/nowhere/file", "/dev/full"):
            lab.train("--out=run", f"--{flag}={path}").expect(1, f"--{flag}", path)
    expect(not (lab.folder / "run/log.jsonl").exists(), "the run began all the same")


@case(QUICK)
def a_trace_that_cannot_be_written_when_it_comes_to_it(lab):
    """As on a disk that has become full: a file may not be as large as the trace, and the rest is small."""
    ended = lab.train("--out=run", "--trace=trace.json", steps=300, before=limit(resource.RLIMIT_FSIZE, 200000))
    ended.expect(1, "trace: cannot write trace.json: File too large")
    lab.expect_all_loadable("run")


@case(QUICK)
def little_memory(lab):
    for megabytes in (150, 400):
        ended = lab.train("--out=run", before=limit(resource.RLIMIT_AS, megabytes << 20))
        expect(ended.code in (0, 1), f"at {megabytes} MB: exit {ended.code}, {ended.error[-300:]}")
        shutil.rmtree(lab.folder / "run", ignore_errors=True)
    with open(lab.folder / "large.txt", "wb") as large:
        large.truncate(8 << 30)
    ended = lab.run("train", [*TINY, "--data=large.txt", "--steps=2", "--out=run"],
                    before=limit(resource.RLIMIT_AS, 2 << 30))
    ended.expect(1)


@case(QUICK)
def no_threads(lab):
    if not can_become_nobody():
        print("    (needs another user, who has no other process)")
        return

    def few():
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.setuid(NOBODY)

    lab.let_nobody_in()
    lab.train("--out=run", before=few).expect(1, "thread")


@case(QUICK)
def a_folder_that_is_gone(lab):
    gone = lab.folder / "gone"
    gone.mkdir()

    def leave():
        os.chdir(gone)
        os.rmdir(gone)

    ended = lab.run("train", [*TINY, f"--data={lab.folder}/text.txt", "--steps=2", f"--out={lab.folder}/run"],
                    before=leave)
    expect(ended.code in (0, 1), f"exit {ended.code}, {ended.error[-300:]}")


@case(QUICK)
def more_devices_than_can_be(lab):
    lab.train("--out=run", "--mesh=data=1000000", "--batch=1000000").expect(1, "devices")
    ended = lab.train("--out=run", "--mesh=data=4096", "--batch=4096")
    expect(ended.code in (1, 2), f"exit {ended.code}")
    expect(not (lab.folder / "run").exists(), "a run that was refused left a folder")


@case(QUICK)
def what_cannot_fit_is_told_before_it_is_planned(lab):
    """The plan of a thousand devices is some GiB by itself, and takes a minute to make."""
    for arguments in (["--mesh=data=1024", "--batch=1024"], ["--mesh=data=8 model=2", "--layers=100", "--batch=64"]):
        begin = time.time()
        ended = lab.train("--out=run", "--memory=0.001", *arguments, before=limit(resource.RLIMIT_AS, 1 << 30))
        ended.expect(1, "the plan does not fit: expected at most 1073742 bytes", "The largest at the peak of device")
        expect(time.time() - begin < 15, f"{arguments[0]} took {time.time() - begin:.1f} s to refuse")


@case(QUICK)
def an_interrupt_while_compiling(lab):
    run = lab.start("train", [*TINY, "--data=text.txt", "--layers=300", "--mesh=data=8 model=2", "--steps=9",
                              "--out=run", "--batch=64"])
    time.sleep(1.5)
    lab.interrupt(run, "an interrupt").expect(0)


@case(QUICK)
def interrupts_while_a_run_begins(lab):
    """Its text, first values and checkpoint take a moment each; memory for them is mapped."""
    with open(lab.folder / "text.txt", "ab") as text:
        text.write(b"a text that is long enough to be read for a moment\n" * 800000)
    wide = ["--hidden=1024", "--heads=8"]
    first = lab.begin_training("--out=run", *wide)
    lab.await_step(first, "run", 1)
    first.send_signal(signal.SIGINT)
    lab.end(first, 30).expect(0)
    log = (lab.folder / "run/log.jsonl").read_bytes()
    began, draw = 0, random.Random(1)
    for round_ in range(10):
        resumed = round_ % 2 == 0
        run = lab.start("train", ["--resume=run"]) if resumed else lab.begin_training("--out=new", *wide)
        time.sleep(draw.uniform(0.05, 1.5))
        if run.poll() is not None:
            break
        ended = lab.interrupt(run, f"round {round_}: an interrupt")
        early = ended.code == -signal.SIGINT  # it had not come as far as to handle signals
        expect(early or ended.code == 0, f"exit {ended.code}: {ended.error[-300:]}")
        began += "stopped before it began" in ended.out
        if early or "stopped before it began" in ended.out:
            expect(resumed or not (lab.folder / "new").exists(), "a run that never began left a folder")
            expect((lab.folder / "run/log.jsonl").read_bytes() == log, "a run that never began changed its log")
        shutil.rmtree(lab.folder / "new", ignore_errors=True)
        log = (lab.folder / "run/log.jsonl").read_bytes()
    expect(began > 0, "no interrupt came while a run began")
    lab.resume("run", "--sample", "--sample_length=1").expect(0)  # its whole text is long to evaluate


@case(CAMPAIGN)
def interrupts_all_through_a_long_compile(lab):
    for tenths in range(5, 400, 15):
        shutil.rmtree(lab.folder / "run", ignore_errors=True)
        run = lab.start("train", [*TINY, "--data=text.txt", "--layers=300", "--mesh=data=8 model=2", "--steps=9",
                                  "--out=run", "--batch=64"])
        time.sleep(tenths / 10)
        if run.poll() is not None:
            lab.end(run)
            break
        # One that is training ends its step and saves, for which the disk takes what it takes.
        begun = (lab.folder / "run/log.jsonl").exists()
        ended = lab.interrupt(run, f"after {tenths / 10} s an interrupt", DEADLINE if begun else 3).expect(0)
        if "stopped before it began" in ended.out:
            expect(not (lab.folder / "run").exists(), "a run that was stopped before it began left a folder")


@case(QUICK)
def the_second_is_told_before_data_is_read(lab):
    first = lab.begin_training("--out=run")
    lab.await_step(first, "run", 1)
    os.mkfifo(lab.folder / "pipe")
    for arguments in (["--data=text.txt"], ["--data=pipe"]):
        shutil.rmtree(lab.folder / "other", ignore_errors=True)
        (lab.folder / "other").mkdir()
        os.link(lab.folder / "run/run.lock", lab.folder / "other/run.lock")  # another name of the same folder
        lab.run("train", [*TINY, *arguments, "--steps=2", "--out=other"]).expect(1, f"process {first.pid}")
    first.send_signal(signal.SIGINT)
    lab.end(first).expect(0)


@case(QUICK)
def exports_keep_out_of_each_others_way(lab):
    lab.train("--out=run").expect(0)
    newest = lab.checkpoints("run")[-1]
    for round_ in range(20):
        export = lab.start("export", [f"--checkpoint={newest}", "--out=hf"])
        time.sleep(random.Random(round_).uniform(0, 0.03))
        export.kill()
        lab.end(export)
    exports = [lab.start("export", [f"--checkpoint={newest}", "--out=hf"]) for _ in range(4)]
    codes = [lab.end(export).code for export in exports]
    expect(0 in codes and set(codes) <= {0, 1}, f"four exports at once ended with {codes}")
    lab.run("export", [f"--checkpoint={newest}", "--out=hf"]).expect(0)
    left = sorted(x.name for x in lab.folder.iterdir() if x.name.startswith("hf"))
    expect(left == ["hf"], f"expected hf alone, got {left}")
    lab.run("import", ["--model=hf", "--out=imported/checkpoints"]).expect(0)
    trained = lab.begin_training("--out=busy")
    lab.await_step(trained, "busy", 1)
    lab.run("import", ["--model=hf", "--out=busy/checkpoints"]).expect(1, f"process {trained.pid}")


@case(QUICK)
def zero_without_its_axis(lab):
    lab.train("--out=run", "--mesh=model=2", "--zero=1").expect(2, "--zero", "axis data", "model=2")
    lab.train("--out=run", "--mesh=data=1", "--zero=1").expect(0)


# ---- files from elsewhere ----

def fake_model(folder):
    folder.mkdir(exist_ok=True)
    header = json.dumps({"wte.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    (folder / "config.json").write_text("{}")
    return folder


@case(QUICK)
def nested_json(lab):
    model = fake_model(lab.folder / "model")
    for brackets in ("[" * 100000, '{"a":' * 100000):
        (model / "config.json").write_text(brackets)
        lab.run("import", ["--model=model", "--out=made"]).expect(1, "config.json")
    fake_model(model)
    header = b"[" * 200000
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    lab.run("import", ["--model=model", "--out=made"]).expect(1)


@case(QUICK)
def many_tensors(lab):
    model = fake_model(lab.folder / "model")
    header = json.dumps({f"tensor-{n:06d}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                         for n in range(300000)}).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    begin = time.time()
    lab.run("import", ["--model=model", "--out=made"]).expect(1)
    expect(time.time() - begin < 20, f"300,000 names took {time.time() - begin:.0f} s")


@case(QUICK)
def pipes_in_place_of_files(lab):
    lab.train("--out=run").expect(0)
    os.mkfifo(lab.folder / "pipe")
    for flag in ("machine", "data"):
        ended = lab.run("train", [*TINY, "--data=text.txt", "--steps=2", "--out=other", f"--{flag}=pipe"])
        expect(ended.code in (1, 2) and "pipe" in ended.error, f"--{flag}=pipe: {ended.code} {ended.error}")
    for name in ("manifest.json", "tensors.safetensors"):
        shutil.copytree(lab.checkpoints("run")[-1], lab.folder / name)
        os.unlink(lab.folder / name / name)
        os.mkfifo(lab.folder / name / name)
        ended = lab.resume(name, "--steps=8", "--out=other")
        expect(ended.code in (1, 2) and name in ended.error, f"{name}: {ended.code} {ended.error}")


@case(QUICK)
def links_that_lead_nowhere(lab):
    (lab.folder / "texts").mkdir()
    shutil.move(lab.folder / "text.txt", lab.folder / "texts/text.txt")
    for name, target in (("loop", "loop"), ("dangling", "nowhere")):
        os.symlink(target, lab.folder / "texts" / name)
        ended = lab.run("train", [*TINY, "--data=texts", "--steps=2", f"--out=run-{name}"])
        expect(name in ended.error or name in ended.out, f"{name} is not named: {ended.error}")
        os.unlink(lab.folder / "texts" / name)


@case(QUICK)
def names_that_are_no_text(lab):
    name = b"run-\xff\xfe"
    ended = lab.run("train", [os.fsencode(x) for x in [*TINY, "--data=text.txt", "--steps=3"]] + [b"--out=" + name])
    if ended.code == 0:
        lab.run("train", [b"--resume=" + name, b"--steps=4"]).expect(0)
    else:
        ended.expect(2)


@case(CAMPAIGN)
def a_log_of_a_gibibyte(lab):
    lab.train("--out=run").expect(0)
    log = lab.folder / "run/log.jsonl"
    line = b'{"step":1,"loss":5.5,"grad_norm":1,"lr":0.001,"tokens_per_second":1}\n'
    text = log.read_bytes()
    with open(log, "wb") as file:
        file.write(text)
        for _ in range(1100):
            file.write(line * ((1 << 20) // len(line)))
    lab.resume("run", "--steps=8").expect(0)
    os.unlink(log)


# ---- what survived when this list was made ----

@case(CAMPAIGN)
def killed_while_saving(lab):
    """Fifty times in one run; nothing is lost, and the bits are those of a run that nobody killed."""
    lab.train("--out=whole", "--save_every=1", steps=60).expect(0)
    lab.begin_training("--out=run", "--save_every=1", steps=60).kill()
    for n in range(50):
        at = f"run" if lab.checkpoints("run") else None
        run = lab.start("train", [f"--resume={at}"] if at else [*TINY, "--data=text.txt", "--steps=60",
                                                               "--save_every=1", f"--out=run"])
        time.sleep(random.Random(n).uniform(0.3, 1.2))
        run.kill()
        lab.end(run)
        if not lab.checkpoints("run"):
            shutil.rmtree(lab.folder / "run", ignore_errors=True)
    lab.resume("run").expect(0) if lab.checkpoints("run") else lab.train("--out=run", "--save_every=1", steps=60)
    mine, other = lab.checkpoints("run")[-1], lab.checkpoints("whole")[-1]
    expect(mine.name == other.name, f"expected {other.name}, got {mine.name}")
    expect((mine / "tensors.safetensors").read_bytes() == (other / "tensors.safetensors").read_bytes(),
           "the weights are not those of a run that nobody killed")
    expect(lab.steps_logged("run") == list(range(1, 61)), "the log has not every step once")


def flip_bytes(lab, count):
    lab.train("--out=run", "--save_every=3", steps=6).expect(0)
    newest = lab.checkpoints("run")[-1]
    draw = random.Random(1)
    for n in range(count):
        path = newest / draw.choice(["manifest.json", "tensors.safetensors"])
        whole = path.read_bytes()
        changed = bytearray(whole)
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        ended = lab.resume(newest, "--steps=7", f"--out=probe{n}")
        expect(ended.code in (1, 2), f"flip {n} of {path.name} was not noticed: exit {ended.code}")
        path.write_bytes(whole)
        shutil.rmtree(lab.folder / f"probe{n}", ignore_errors=True)
    lab.expect_loadable(newest, 6)


@case(QUICK)
def flipped_bytes(lab):
    flip_bytes(lab, 8)


@case(CAMPAIGN)
def many_flipped_bytes(lab):
    flip_bytes(lab, 400)


@case(CAMPAIGN)
def full_disks(lab):
    if os.geteuid() != 0:
        return
    disk = lab.folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=False).returncode != 0:
        print("    (not allowed to mount a small disk)")
        return
    try:
        ended = lab.train("--out=disk/run", "--save_every=2", "--keep=100", steps=40)
        expect(ended.code in (0, 1), f"exit {ended.code}: {ended.error[-300:]}")
        for checkpoint in lab.checkpoints("disk/run"):
            lab.expect_loadable(checkpoint, int(checkpoint.name[5:]))
    finally:
        subprocess.run(["umount", disk], check=False)


if __name__ == "__main__":
    sys.exit(hostile_lab.main(sys.argv[1:]))
