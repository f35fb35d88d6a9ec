"""Fails when a share of a limit, or a ratio, has fallen by more than 15 % since it was recorded.

    ./bazelw run //bench:guard                 # two minutes; by hand and at night, nothing else running
    ./bazelw run //bench:guard -- --record     # after a change that is meant to be slower, or on another CPU

Only what was measured against a limit in the same process is compared, never a time. bench/guard.json has a table for
each CPU, since a share of one CPU says nothing of another. What fell is measured again, up to --repeats times, and
counts as fallen only if it never reached what it should.
"""

import argparse
import json
import os
import sys

from bench import figures, machine_facts, runs

FALL = 0.15


def _sums(text):
    """Of the kernels of a step only the sums: single ones wander."""
    return [figure for figure in figures.of_lines(text) if figure.name.endswith(" of a step")]


# Fast, and each case with a limit; (program, arguments, how it is read). Not messages to a sleeper: their share
# wanders between 0.4 and 1.7 from process to process, as the kernel wakes whom it will.
PROGRAMS = [
    ("runtime_benchmark", ["--benchmark_format=json", "--benchmark_filter=-asleep"], figures.of_google_benchmark),
    ("gpt_step", ["--size=tiny", "--threads=1", "--steps=12"], figures.of_gpt_step),
    ("gpt_step", ["--size=tiny", "--threads=2", "--steps=20"], figures.of_gpt_step),
    ("ops_benchmark", ["--json", "--budget=0.03"], _sums),
    ("loader", ["--blocks=6"], figures.of_lines),
]


def shares_of(programs, run):
    """The best share of each case over one process of each program. A program that fails is an error."""
    shares = {}
    for program in programs:
        for figure in run(program):
            if figure.share is not None:
                shares[figure.name] = max(figure.share, shares.get(figure.name, 0))
    return shares


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
            verdict = "fell" if now < before * (1 - FALL) else "ok"
        lines.append((name, before, now, verdict))
    return lines


def guard(recorded, programs, run, repeats):
    """Measures, and again what fell: the best of all tries counts. Programs none of whose cases fell run once."""
    best, cases = {}, {}
    remaining = list(programs)
    for _ in range(1 + repeats):
        for program in remaining:
            shares = shares_of([program], run)
            cases.setdefault(str(program[:2]), set()).update(shares)
            for name, share in shares.items():
                best[name] = max(share, best.get(name, 0))
        fallen = {name for name, _, _, verdict in compare(recorded, best) if verdict == "fell"}
        remaining = [program for program in programs if cases[str(program[:2])] & fallen]
        if not remaining:
            break
    return best


def median_shares(programs, run, times):
    """What to record: the median of several tries, which one lucky try does not move."""
    tries = [shares_of(programs, run) for _ in range(times)]
    return {name: round(sorted(each[name] for each in tries)[len(tries) // 2], 4) for name in sorted(tries[0])}


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
    parser.add_argument("--repeats", type=int, default=2, help="further tries of what fell (default: %(default)s)")
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
        tables[cpu] = median_shares(programs, run, 3)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tables, file, indent=1, sort_keys=True)
            file.write("\n")
        print("recorded %d shares of %s in %s" % (len(tables[cpu]), cpu, path))
        return 0
    if cpu not in tables:
        print("guard: no table of %s; --record makes one. There are: %s" % (cpu, ", ".join(tables) or "none"))
        return 2
    lines = compare(tables[cpu], guard(tables[cpu], programs, run, options.repeats))
    for name, before, now, verdict in lines:
        print("%-40s %8s %8s  %s" % (name, *("" if x is None else "%.3f" % x for x in (before, now)), verdict))
    wrong = [line for line in lines if line[3] in ("fell", "gone")]
    kept = [line for line in lines if line[3] == "ok"]
    print("%d of %d shares of limits are as recorded, %s" % (
        len(kept), len(tables[cpu]), "%d are not" % len(wrong) if wrong else "none fell by more than 15 %"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
