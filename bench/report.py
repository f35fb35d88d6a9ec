"""Sluice beside its limits and its peers: runs what is in groups.py and writes one report.

    ./bazelw run //bench:report -- --out=/tmp/report --python=venv/bin/python
    ./bazelw run //bench:report -- --quick --only=runtime,gpt

Ours and each peer take turns, several whole processes each. Nothing else should run on the machine. A peer
that is not there is reported as missing, a process that fails by its last lines; neither is a win. bench/README.md
says what each group shows.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys

from bench import figures, groups, machine_facts, runs, tables


def arguments(argv):
    parser = argparse.ArgumentParser(prog="report", description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="folder for report.json, report.md and report.svg; default: only print")
    parser.add_argument("--only", help="groups, with commas: %s" % ",".join(groups.GROUPS))
    parser.add_argument("--skip", default="", help="groups to leave out")
    parser.add_argument("--quick", action="store_true", help="two minutes: one process each, small cases")
    parser.add_argument("--python", default="python3", help="the Python that has PyTorch and JAX (default: %(default)s)")
    parser.add_argument("--original_python", default="python3.10",
                        help="a CPython 3.10 that has oneflow (default: %(default)s)")
    parser.add_argument("--programs", help="folder of our programs; default: what Bazel built")
    options = parser.parse_args(argv)
    names = options.only.split(",") if options.only else list(groups.GROUPS)
    unknown = [name for name in names + [n for n in options.skip.split(",") if n] if name not in groups.GROUPS]
    if unknown:
        parser.error("no group %s; there are %s" % (", ".join(unknown), ", ".join(groups.GROUPS)))
    options.names = [name for name in names if name not in options.skip.split(",")]
    return options


def interpreter(path):
    """The Python at a path or of that name; "" if there is none that starts."""
    found = runs.from_caller(path) if os.sep in path else shutil.which(path)
    if not found:
        return ""
    try:
        subprocess.run([found, "-c", ""], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found


def rows_of_contest(contest):
    """Rows by name, and what went wrong: peers' troubles stand in rows, ours have a line of their own."""
    peers = [(peer.name, peer.processes, peer.trouble) for peer in contest.peers]
    rows = figures.rows_of(contest.ours.processes, peers)
    troubles = ["%s: %s: %s" % (contest.name, one.name, one.trouble)
                for one in [contest.ours] + contest.peers if one.trouble]
    if not rows:
        rows = [figures.Row(name=contest.name, trouble=contest.ours.trouble)]
    return rows, troubles


def measure(names, setting, sections, troubles, log):
    """Adds to the three lists group by group, so that a run that is stopped by hand leaves what it has."""
    contests = {name: groups.GROUPS[name].contests(setting) for name in names}
    progress = runs.Progress(sum(runs.processes_of(each) for each in contests.values()))
    for name in names:
        rows = []
        for contest in contests[name]:
            runs.run_contest(contest, progress)
            added, wrong = rows_of_contest(contest)
            rows += added
            troubles += wrong
            for contestant in [contest.ours] + contest.peers:
                log += contestant.log
        group = groups.GROUPS[name]
        sections.append((name, group, rows))
        print("\n%s\n%s\n%s" % (name, group.what, tables.text_table(rows, group.parts)), flush=True)


def write(folder, machine, sections, troubles, log):
    os.makedirs(folder, exist_ok=True)
    title = "Sluice, measured"
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "troubles": troubles, "processes": log,
                   "groups": {name: [row.fields() for row in rows] for name, _, rows in sections}}, file, indent=1)
        file.write("\n")
    with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as file:
        file.write(tables.markdown(title, machine, sections, troubles))
    with open(os.path.join(folder, "report.svg"), "w", encoding="utf-8") as file:
        file.write(tables.picture(title, "%s, %s cores, revision %s" % (machine["cpu"], machine["cores"],
                                                                        machine["revision"]),
                                  [row for _, _, rows in sections for row in rows]))
    print("written: %s" % ", ".join(os.path.join(folder, "report." + end) for end in ("json", "md", "svg")))


def main(argv):
    options = arguments(argv)
    setting = groups.Setting(
        programs=runs.from_caller(options.programs) if options.programs else runs.built_programs(),
        peers=os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"), python=interpreter(options.python),
        original_python=interpreter(options.original_python), quick=options.quick)
    machine = machine_facts.describe(runs.workspace(), setting.python, setting.original_python)
    machine["date"] = datetime.date.today().isoformat()
    for key, value in machine.items():
        print("%-26s %s" % (key, value))
    if runs.load_average() > 0.5:
        print("warning: something else is running here; ratios and above all limits will suffer")
    sections, troubles, log = [], [], []
    try:
        measure(options.names, setting, sections, troubles, log)
    except KeyboardInterrupt:
        troubles.append("the report: failed: stopped by hand after %s" % (
            ", ".join(name for name, _, _ in sections) or "nothing"))
    for line in [line for name, _, rows in sections if name == "gpt" for line in tables.goals_of_gpt(rows)]:
        print(line)
    for trouble in troubles:
        print(trouble)
    if options.out:
        write(runs.from_caller(options.out), machine, sections, troubles, log)
    # A missing peer is no failure of ours; a process that failed is one, whosever it is.
    return 1 if any(": failed: " in trouble for trouble in troubles) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
