"""Mutants of the heart packages: small faults, one at a time, that a test has to find.

    ci/mutants.py draw --seed=1 --count=60        # writes ci/mutants.txt: a fault a line, drawn from the sources
    ci/mutants.py redraw --seed=1                 # keeps what the sources still hold, and draws the rest
    ci/mutants.py run --scratch=/tmp/mutants      # applies each in a copy of HEAD there, builds, tests, and counts
    ci/mutants.py run --again                     # tries once more what survived, after a test was written and committed
    ci/mutants.py list                            # what stands in the list, and what the sources no longer hold

`run` goes on where it was broken off, as each outcome is appended to <scratch>/outcomes.jsonl; a fault takes some ten
seconds once the copy is built. A mutant is killed by a test that fails, first of its own package, then of those that use
it; it survives if none does; it is void if it does not compile (`redraw` replaces it); it is stale if its line is no
longer there. A survivor wants a test, or, where the fault changes nothing that anyone could see, another mutant in its
place.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LIST = os.path.join(ROOT, "ci", "mutants.txt")

# By package, rounds of tests: what stands beside it and takes a second, then its users, then what takes long. A round
# runs only if those before it found nothing. What begins with - is an option of bazel, or leaves a target out.
_LAYOUTS = ["//framework/conformance:layouts_test", "//framework/session:session_test"]
_RANKS = ["--test_filter=Layouts/RanksTest.*/data2_model2_pipe2_micro2", "//models/gpt:ranks_test"]
_COMPILER = ["//framework/compiler/...", "-//framework/compiler:plan_campaign_test"]
TESTS = {
    "sbp": [["//framework/sbp/...", "-//framework/sbp:boxing_phase_test"],
            ["//framework/sbp:boxing_phase_test", "//framework/conformance:signatures_test"],
            _COMPILER + _LAYOUTS, ["//models/gpt:golden_test"]],
    "compiler": [_COMPILER, _LAYOUTS + ["//models/gpt:schedule_test"],
                 ["//models/gpt:golden_test", "//framework/compiler:plan_campaign_test"],
                 ["//framework/conformance:random_graphs_test"], _RANKS],
    "plan": [["//framework/plan/..."], ["//framework/actor/...", "//framework/testing:hand_plans_test"],
             _COMPILER + ["//framework/runtime/..."], ["//framework/compiler:plan_campaign_test"], _RANKS],
    "actor": [["//framework/actor/..."], ["//framework/testing:hand_plans_test", "//framework/sim/..."],
              ["//framework/runtime/...", "//models/gpt:schedule_test"], _COMPILER],
    "graph": [["//framework/graph/..."], ["//framework/passes/...", "//framework/ops/...", "//models/gpt:gpt_test"],
              _LAYOUTS, ["//framework/conformance:random_graphs_test"]],
}
# The first test that fails ends a round. A mutant may loop for ever or ask for all the memory that there is.
_TEST_OPTIONS = ["--notest_keep_going", "--test_timeout=60,120,300,600", "--run_under=/usr/bin/prlimit --as=8000000000",
                 "--test_output=summary", "--color=no", "--curses=no"]

# What stands in these packages for tests alone, or writes for people: no heart.
_LEFT_OUT = re.compile(r"(_test|_fuzz|testing|random_program|hand_plans|symbolic|checker|interleaver|toy_ops|"
                       r"explain\w*|statistics|text\w*|_reference)\.cc$")
# A line that tells rather than computes.
_TELLS = re.compile(r'^\s*(//|#|case |default:|namespace|using |template|SLUICE_|absl::StrCat|return absl::\w+Error)|StrCat|"'
                    r"|constexpr|operator|static_assert")

# Kinds of faults: (kind, what is found, what stands there then). Operators have spaces around them, as templates and
# pointers have not.
_FAULTS = [
    ("operator", r" < ", " <= "), ("operator", r" <= ", " < "), ("operator", r" > ", " >= "),
    ("operator", r" >= ", " > "), ("operator", r" == ", " != "), ("operator", r" != ", " == "),
    ("operator", r" && ", " || "), ("operator", r" \|\| ", " && "), ("operator", r" \+ (?=\w)", " - "),
    ("operator", r" - (?=\w)", " + "), ("operator", r" % ", " / "), ("operator", r" \+= ", " -= "),
    ("bound", r"std::max", "std::min"), ("bound", r"std::min\b", "std::max"), ("bound", r" \+ 1\b", ""),
    ("bound", r" - 1\b", ""), ("bound", r"= 0;", "= 1;"), ("bound", r"\+\+(\w+)\)", r"\1 += 2)"),
    ("bound", r"lower_bound", "upper_bound"), ("bound", r"upper_bound", "lower_bound"),
    ("order", r"\.begin\(\), (\w+)\.end\(\)", r".begin() + 1, \1.end()"), ("order", r"\.front\(\)", ".back()"),
    ("order", r"\.back\(\)", ".front()"), ("order", r"return (\w+) < (\w+);", r"return \2 < \1;"),
    ("order", r"\btrue\b", "false"), ("order", r"\bfalse\b", "true"), ("order", r"\(!(\w)", r"(\1"),
    ("call", r"^(\s*)[\w.>\[\]-]+\([^;]*\);$", r"\1;"), ("call", r"^(\s*)(continue|break);$", r"\1;"),
    ("call", r"^(\s*)RETURN_IF_ERROR\([^;]*\);$", r"\1;"), ("call", r"^(\s*)if \([^{}]*\) (continue|return[^;]*);$", r"\1;"),
]


class Mutant:
    """A fault: in which file, on which line by its text, and what the line is then."""

    def __init__(self, path, occurrence, kind, before, after):
        self.path, self.occurrence, self.kind, self.before, self.after = path, occurrence, kind, before, after

    @property
    def package(self):
        return self.path.split("/")[1]

    def line(self):
        return "\t".join([self.path, str(self.occurrence), self.kind, self.before.strip(), self.after.strip()])

    @staticmethod
    def parse(line):
        path, occurrence, kind, before, after = line.split("\t")
        return Mutant(path, int(occurrence), kind, before, after)

    def apply(self, text):
        """The file's text with the fault, or None if the line is not there."""
        lines, seen = text.split("\n"), 0
        for number, line in enumerate(lines):
            if line.strip() != self.before.strip():
                continue
            if seen == self.occurrence:
                indent = line[:len(line) - len(line.lstrip())]
                lines[number] = indent + self.after.strip()
                return "\n".join(lines)
            seen += 1
        return None


def faults_of(path, text):
    """Every fault that the kinds make of a file, in the order of its lines."""
    found, seen = [], {}
    for line in text.split("\n"):
        occurrence = seen.get(line.strip(), 0)
        seen[line.strip()] = occurrence + 1
        if _TELLS.search(line) or line.count("(") != line.count(")"):
            continue
        for kind, pattern, replacement in _FAULTS:
            after, count = re.subn(pattern, replacement, line, count=1)
            if count and after != line:
                found.append(Mutant(path, occurrence, kind, line, after))
    return found


def sources(root=ROOT):
    paths = []
    for package in TESTS:
        folder = os.path.join(root, "framework", package)
        paths += ["framework/%s/%s" % (package, name) for name in sorted(os.listdir(folder))
                  if name.endswith(".cc") and not _LEFT_OUT.search(name)]
    return paths


def read(root, path):
    if not os.path.exists(os.path.join(root, path)):
        return ""  # holds no line, so that a mutant of a file that is gone is stale
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def draw(seed, count, kept):
    """As many from each package, of each kind in turn, from the files that have fewest; no two on one line.

    What is kept of an older list stands first, as far as no file has more than its share.
    """
    generator, drawn = random.Random(seed), []
    for number, package in enumerate(TESTS):
        wanted = (count + number) // len(TESTS)
        pool = [fault for path in sources() if path.startswith("framework/%s/" % package)
                for fault in faults_of(path, read(ROOT, path))]
        of_file = dict.fromkeys((fault.path for fault in pool), 0)
        share, kinds, taken = -(-wanted // len(of_file)), sorted({fault.kind for fault in pool}), []

        def take(fault):
            pool[:] = [other for other in pool if (other.path, other.occurrence, other.before.strip()) !=
                       (fault.path, fault.occurrence, fault.before.strip())]
            of_file[fault.path] += 1
            taken.append(fault)

        for fault in kept:
            if fault.package == package and of_file.get(fault.path, share) < share and len(taken) < wanted:
                take(fault)
        while len(taken) < wanted:
            kind = kinds[len(taken) % len(kinds)]
            of_kind = [fault for fault in pool if fault.kind == kind] or pool
            fewest = min(of_file[fault.path] for fault in of_kind)
            path = generator.choice(sorted({fault.path for fault in of_kind if of_file[fault.path] == fewest}))
            take(generator.choice([fault for fault in of_kind if fault.path == path]))
        drawn += taken
    return drawn


def load(path=LIST):
    with open(path, encoding="utf-8") as file:
        return [Mutant.parse(line.rstrip("\n")) for line in file if line.strip() and not line.startswith("#")]


def bazel_test(bazel, scratch, targets, jobs):
    """("ok" | "build" | "failed", the tests that failed)."""
    options = [target for target in targets if target.startswith("--")]
    command = ["nice", "-n", "10", bazel, "test", "--jobs=%d" % jobs] + _TEST_OPTIONS + options + ["--"]
    command += [target for target in targets if not target.startswith("--")]
    result = subprocess.run(command, cwd=scratch, capture_output=True, text=True, errors="replace")
    failed = re.findall(r"^(//\S+) +(?:FAILED in|TIMEOUT)", result.stdout, re.MULTILINE)
    if failed:
        return "failed", failed
    return ("ok", []) if result.returncode == 0 else ("build", [])


def try_mutant(mutant, bazel, scratch, jobs):
    text = read(scratch, mutant.path)
    mutated = mutant.apply(text)
    if mutated is None:
        return "stale", []
    file_path = os.path.join(scratch, mutant.path)
    try:
        with open(file_path, "w", encoding="utf-8") as file:
            file.write(mutated)
        unwarned = []
        for targets in TESTS[mutant.package]:
            state, failed = bazel_test(bazel, scratch, unwarned + targets, jobs)
            if state == "build" and not unwarned:  # maybe for a warning alone: no test found that
                unwarned = ["--per_file_copt=%s@-w" % mutant.path]
                state, failed = bazel_test(bazel, scratch, unwarned + targets, jobs)
            if state != "ok":
                return ("void" if state == "build" else "killed"), failed
        return "survived", []
    finally:
        with open(file_path, "w", encoding="utf-8") as file:
            file.write(text)


def prepare_scratch(scratch):
    """A worktree of HEAD, whose outputs stay warm from one campaign to the next."""
    if not os.path.exists(os.path.join(scratch, "WORKSPACE")):
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", scratch, "HEAD"], check=True)
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    subprocess.run(["git", "-C", scratch, "checkout", "--quiet", "--force", "--detach", head.strip()], check=True)


def read_outcomes(scratch):
    """What earlier runs found, by mutant's line; the last word counts."""
    log = os.path.join(scratch, "outcomes.jsonl")
    if not os.path.exists(log):
        return {}
    with open(log, encoding="utf-8") as file:
        return {entry["mutant"]: entry for entry in map(json.loads, file)}


def run(mutants, bazel, scratch, jobs=2, again=False, out=sys.stdout):
    prepare_scratch(scratch)
    log, outcomes = os.path.join(scratch, "outcomes.jsonl"), read_outcomes(scratch)
    if again:
        outcomes = {line: entry for line, entry in outcomes.items() if entry["outcome"] == "killed"}
    for package in sorted({mutant.package for mutant in mutants if mutant.line() not in outcomes}):
        for targets in TESTS[package]:  # unharmed, all pass: then what fails later is a mutant's doing
            state, failed = bazel_test(bazel, scratch, targets, jobs)
            if state != "ok":
                sys.exit("mutants: without any fault: %s %s" % (state, ", ".join(failed or targets)))
    began = time.monotonic()
    for number, mutant in enumerate(mutants, 1):
        if mutant.line() not in outcomes:
            outcome, failed = try_mutant(mutant, bazel, scratch, jobs)
            outcomes[mutant.line()] = {"mutant": mutant.line(), "outcome": outcome, "tests": failed}
            with open(log, "a", encoding="utf-8") as file:
                file.write(json.dumps(outcomes[mutant.line()]) + "\n")
        entry, seconds = outcomes[mutant.line()], int(time.monotonic() - began)
        print("[%2d/%d %3d:%02d] %-8s %s: %s -> %s  %s" % (
            number, len(mutants), seconds // 60, seconds % 60, entry["outcome"], mutant.path, mutant.before.strip(),
            mutant.after.strip(), ", ".join(entry["tests"][:2])), file=out, flush=True)
    return [outcomes[mutant.line()]["outcome"] for mutant in mutants]


def main(argv):
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["draw", "redraw", "run", "list"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--scratch", default="/tmp/mutants", help="folder of the copy (default: %(default)s)")
    parser.add_argument("--bazel", default="./bazelw", help="what runs `test TARGETS` there (default: %(default)s)")
    parser.add_argument("--only", default="", help="mutants whose line has this text")
    parser.add_argument("--jobs", type=int, default=2, help="of bazel (default: %(default)s)")
    parser.add_argument("--again", action="store_true", help="tries once more what survived or was void")
    options = parser.parse_args(argv)
    if options.command in ("draw", "redraw"):
        kept, outcomes = [], read_outcomes(options.scratch)
        if options.command == "redraw":
            kept = [mutant for mutant in load() if mutant.apply(read(ROOT, mutant.path)) is not None and
                    outcomes.get(mutant.line(), {}).get("outcome") != "void"]
        drawn = draw(options.seed, options.count, kept)
        with open(LIST, "w", encoding="utf-8") as file:
            file.write("# ci/mutants.py: file, occurrence of the line in it, kind, line, what it becomes; by tabs.\n")
            file.writelines(mutant.line() + "\n" for mutant in drawn)
        return 0
    mutants = [mutant for mutant in load() if options.only in mutant.line()]
    if options.command == "list":
        stale = [mutant for mutant in mutants if mutant.apply(read(ROOT, mutant.path)) is None]
        for mutant in mutants:
            print("%-6s %s" % ("stale" if mutant in stale else "", mutant.line()))
        return 1 if stale else 0
    counts = {}
    for outcome in run(mutants, options.bazel, options.scratch, options.jobs, options.again):
        counts[outcome] = counts.get(outcome, 0) + 1
    print(", ".join("%d %s" % (count, outcome) for outcome, count in sorted(counts.items())))
    killed, survived = counts.get("killed", 0), counts.get("survived", 0)
    return 0 if killed >= 0.9 * (killed + survived) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
