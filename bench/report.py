"""Sluice beside its limits and its peers: runs what is in groups.py and writes one report.

    ./bazelw run //bench:report -- --out=/tmp/report --python=venv/bin/python                 # everything
    ./bazelw run //bench:report -- --models=all --out=/tmp/report --python=venv/bin/python    # the models alone
    ./bazelw run //bench:report -- --quick --models=bert,resnet                               # a look

Ours and each peer take turns, several whole processes each. Nothing else should run on the machine; what others used of
it is measured, and said. A peer that is not there is reported as missing, a process that fails by its last lines;
neither is a win. bench/README.md says what each group shows.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys

from bench import figures, groups, machine_facts, page, rooflines, runs, step_lines, tables
from tools import plot_log


def arguments(argv):
    parser = argparse.ArgumentParser(prog="report", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--out", help="folder for report.json, report.md and report.html; default: only print")
    parser.add_argument("--models",
                        help="these models alone, steps and kernels, with commas, or all: %s" % ",".join(groups.MODELS))
    parser.add_argument("--only", help="groups, with commas: %s" % ",".join(groups.GROUPS))
    parser.add_argument("--skip", default="", help="groups to leave out")
    parser.add_argument("--quick", action="store_true", help="one process each, small cases, nothing that is compiled")
    parser.add_argument("--logs", default="", metavar="MODEL=LOG",
                        help="logs of runs whose curves the page has, with commas; default: those recorded in models/")
    parser.add_argument("--python", default="python3",
                        help="the Python that has PyTorch and JAX (default: %(default)s)")
    parser.add_argument("--original_python", default="python3.10",
                        help="a CPython 3.10 that has oneflow (default: %(default)s)")
    parser.add_argument("--programs", help="folder of our programs; default: what Bazel built")
    options = parser.parse_args(argv)
    models = _names(options.models)
    if models and options.only:
        parser.error("--models and --only both say which groups run; give one of them")
    if models == ["all"]:
        models = list(groups.MODELS)
    _refuse_unknown(parser, "model", models, groups.MODELS)
    names = models + ["ops"] if models else _names(options.only) or list(groups.GROUPS)
    _refuse_unknown(parser, "group", names + _names(options.skip), groups.GROUPS)
    options.names = [name for name in names if name not in _names(options.skip)]
    options.models = models or list(groups.MODELS)
    options.logs = dict(entry.partition("=")[::2] for entry in _names(options.logs))
    _refuse_unknown(parser, "model", options.logs, groups.MODELS)
    return options


def _names(text):
    return [name for name in (text or "").split(",") if name]


def _refuse_unknown(parser, kind, names, known):
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error("no %s %s; there are %s" % (kind, ", ".join(unknown), ", ".join(known)))


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
    for row in rows:
        row.disturbance = runs.disturbance(contest)
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
                log += [{"contest": contest.name, **entry} for entry in contestant.log]
        group = groups.GROUPS[name]
        sections.append((name, group, rows))
        table = tables.text_table(tables.shown_rows(group, rows), group.parts)
        print("\n%s\n%s\n%s" % (name, group.what, table), flush=True)


def warning_of(log, load_at_start):
    """What a reader must know of a machine that was not quiet; "" of one that was."""
    shares = sorted((entry.get("others_cores", 0.0), "%s: %s" % (entry["contest"], entry["name"])) for entry in log)
    disturbed = [cores for cores, _ in shares if cores > runs.QUIET_CORES]
    if not disturbed and load_at_start <= 0.5:
        return ""
    if not disturbed:
        return "Something ran on this machine just before the report (load average %.1f)." % load_at_start
    return ("This machine was not quiet: during %d of %d processes others used over %.2f cores, %.1f at most (%s). "
            "Times, ratios and limits suffer." % (len(disturbed), len(shares), runs.QUIET_CORES, *shares[-1]))


def steps_of(sections):
    """The lines of the first table, of the models that ran."""
    titles = {"%s/%s" % (name, size.case): (" ".join([model.title, size.name]).strip(), size.ops)
              for name, model in groups.MODELS.items() for size in model.sizes}
    rows = [row for name, _, rows in sections if name in groups.MODELS for row in rows]
    return step_lines.lines_of(rows, kernels_of(sections), titles)


def kernels_of(sections):
    return [row for name, _, rows in sections if name == "ops" for row in rows]


def curves_of(models, logs, troubles):
    """(SVG, where it is from) of each model; a log that cannot be read is a trouble."""
    curves = []
    for name in models:
        model = groups.MODELS[name]
        try:
            if name in logs:
                svg, source = plot_log.draw(*plot_log.read(runs.from_caller(logs[name])), ""), logs[name]
            else:
                with open(os.path.join(runs.workspace(), model.curve), encoding="utf-8") as file:
                    svg, source = file.read(), model.curve
            curves.append((svg, source))
        except (OSError, plot_log.Error) as error:
            troubles.append("curve of %s: failed: %s" % (model.title, error))
    return curves


def write(folder, machine, warning, sections, models, curves, troubles, log):
    os.makedirs(folder, exist_ok=True)
    title, lines = "Sluice, measured", steps_of(sections)
    sizes = [(size.ops, " ".join([groups.MODELS[name].title, size.name]).strip())
             for name in models for size in groups.MODELS[name].sizes]
    texts = {
        "json": json.dumps({
            "machine": machine, "warning": warning, "troubles": troubles, "processes": log,
            "groups": {name: [row.fields() for row in rows] for name, _, rows in sections}}, indent=1) + "\n",
        "md": tables.markdown(title, machine, warning, lines, sections, troubles),
        "html": page.html(title, machine, warning, lines, sections, kernels_of(sections), sizes, curves, troubles),
    }
    for end, text in texts.items():
        with open(os.path.join(folder, "report." + end), "w", encoding="utf-8") as file:
            file.write(text)
    print("written: %s" % ", ".join(os.path.join(folder, "report." + end) for end in texts))


def main(argv):
    options = arguments(argv)
    setting = groups.Setting(
        programs=runs.from_caller(options.programs) if options.programs else runs.built_programs(),
        peers=os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"), python=interpreter(options.python),
        original_python=interpreter(options.original_python), quick=options.quick, models=tuple(options.models))
    machine = machine_facts.describe(runs.workspace(), setting.python, setting.original_python)
    machine["date"] = datetime.date.today().isoformat()
    for key, value in machine.items():
        print("%-26s %s" % (key, value))
    load = runs.load_average()
    sections, troubles, log = [], [], []
    try:
        measure(options.names, setting, sections, troubles, log)
    except KeyboardInterrupt:
        troubles.append("the report: failed: stopped by hand after %s" % (
            ", ".join(name for name, _, _ in sections) or "nothing"))
    for line in [line for name, _, rows in sections if name == "gpt" for line in tables.goals_of_gpt(rows)]:
        print(line)
    warning = warning_of(log, load)
    curves = curves_of([name for name in options.names if name in groups.MODELS], options.logs, troubles)
    if warning:
        print("warning: " + warning)
    for trouble in troubles:
        print(trouble)
    if options.out:
        write(runs.from_caller(options.out), machine, warning, sections, options.models, curves, troubles, log)
    # A missing peer is no failure of ours; a process that failed is one, whosever it is.
    return 1 if any(": failed: " in trouble for trouble in troubles) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
