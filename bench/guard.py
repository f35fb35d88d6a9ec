"""Fails when a share of a limit, or a ratio, has fallen by more than 15 % since it was recorded.

    ./bazelw run //bench:guard                 # four minutes; by hand and at night, nothing else running
    ./bazelw run //bench:guard -- --record     # after a change that is meant to be slower, or on another CPU

Only what was measured against a limit in the same process is compared, never a time. bench/guard.json has a table for
each CPU, since a share of one CPU says nothing of another; where there is none, nothing is compared, and that is no
failure. There is one rule of measuring: the median of three processes of each program, for what is recorded and for
what is held against it.
"""

import argparse
import json
import os
import sys

from bench import figures, machine_facts, runs

FALL = 0.15
TRIES = 3


def _sums(text):
    """Of the kernels of a step only the sums: single ones wander."""
    return [figure for figure in figures.of_lines(text) if figure.name.endswith(" of a step")]


# Fast, and each case with a limit; (program, arguments, how it is read). Not messages to a sleeper: their share
# wanders between 0.4 and 1.7 from process to process, as the kernel wakes whom it will.
PROGRAMS = [
    ("runtime_benchmark", ["--benchmark_format=json", "--benchmark_filter=-asleep"], figures.of_google_benchmark),
    ("gpt_step", ["--size=tiny", "--threads=1", "--steps=12"], figures.of_step),
    ("gpt_step", ["--size=tiny", "--threads=2", "--steps=20"], figures.of_step),
    ("ops_benchmark", ["--json", "--budget=0.03"], _sums),
    ("loader", ["--blocks=6"], figures.of_lines),
]


def add_shares(program, run, tries):
    """Appends the shares of one process of a program to the tries of each case; its cases."""
    shares = {figure.name: figure.share for figure in run(program) if figure.share is not None}
    for name, share in shares.items():
        tries.setdefault(name, []).append(share)
    return set(shares)


def medians(tries):
    """Of two tries the lower: they are left at two only where both say the same."""
    return {name: sorted(shares)[(len(shares) - 1) // 2] for name, shares in tries.items()}


def record(programs, run):
    """The median share of each case over TRIES processes of its program. A program that fails is an error."""
    tries = {}
    for program in programs:
        for _ in range(TRIES):
            add_shares(program, run, tries)
    return {name: round(share, 4) for name, share in sorted(medians(tries).items())}


def _fell(before, now):
    return now < before * (1 - FALL)


def compare(recorded, measured):
    """Lines (case, recorded, measured, verdict); a verdict is "ok", "fell", "gone" or "new"."""
    lines = []
    for name in sorted(set(recorded) | set(measured)):
        before, now = recorded.get(name), measured.get(name)
        if before is None:
            verdict = "new"
        elif now is None:
            verdict = "gone"
        else:
            verdict = "fell" if _fell(before, now) else "ok"
        lines.append((name, before, now, verdict))
    return lines


def guard(recorded, programs, run):
    """What record() would give, as far as the verdicts need it: two tries that agree decide for three."""
    tries = {}
    for program in programs:
        cases = add_shares(program, run, tries) | add_shares(program, run, tries)
        verdicts = {name: {_fell(recorded[name], share) for share in tries[name]} for name in cases & set(recorded)}
        if any(len(verdict) > 1 for verdict in verdicts.values()):
            add_shares(program, run, tries)
    return medians(tries)


def run_program(folder):

    def run(program):
        name, command, read = program
        contestant = runs.Contestant(name, [os.path.join(folder, name)] + command, read, timeout=300)
        print("  %s %s" % (name, " ".join(command)), file=sys.stderr, flush=True)
        runs.run_process(contestant)
        if contestant.trouble:
            raise SystemExit("guard: %s: %s" % (" ".join([name] + command), contestant.trouble))
        return contestant.processes[0]

    return run


def main(argv, programs=None, run=None):
    parser = argparse.ArgumentParser(prog="guard", description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write what is measured now as this CPU's table")
    parser.add_argument("--table", help="default: bench/guard.json of the workspace")
    parser.add_argument("--programs", help="folder of our programs; default: what Bazel built")
    options = parser.parse_args(argv)
    path = runs.from_caller(options.table) if options.table else os.path.join(runs.workspace(), "bench/guard.json")
    folder = runs.from_caller(options.programs) if options.programs else runs.built_programs()
    programs, run = programs or PROGRAMS, run or run_program(folder)
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = machine_facts.cpu_name(file.read())
    tables = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            tables = json.load(file)
    if options.record:
        tables[cpu] = record(programs, run)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tables, file, indent=1, sort_keys=True)
            file.write("\n")
        print("recorded %d shares of %s in %s" % (len(tables[cpu]), cpu, path))
        return 0
    if cpu not in tables:
        print("guard: no record of %s, so nothing is compared. To make one, with nothing else running:\n"
              "  ./bazelw run //bench:guard -- --record\n"
              "Recorded are: %s" % (cpu, ", ".join(tables) or "none"))
        return 0
    lines = compare(tables[cpu], guard(tables[cpu], programs, run))
    for name, before, now, verdict in lines:
        print("%-40s %8s %8s  %s" % (name, *("" if x is None else "%.3f" % x for x in (before, now)), verdict))
    wrong = [line for line in lines if line[3] in ("fell", "gone")]
    kept = [line for line in lines if line[3] == "ok"]
    print("%d of %d shares of limits are as recorded, %s" % (
        len(kept), len(tables[cpu]), "%d are not" % len(wrong) if wrong else "none fell by more than 15 %"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
