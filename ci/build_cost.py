"""What building a target costs: cold, and again after a change. Prints the tables of docs/building.md.

  python3 ci/build_cost.py [//models/gpt:train]

Builds it in an output directory of its own that nothing has been built in, and times three warm builds. Seconds of a
target are the sum over its actions, as Bazel's profile has them; two run at a time on two cores.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

_WARM = (("nothing", None), ("a function of one kernel", "framework/kernels/cpu/fold.cc"),
         ("the header of status macros, which nearly all include", "framework/base/status.h"))


def action_seconds(profile):
    """{target: (actions, seconds)} of the actions that compile, generate or link for a target."""
    costs = {}
    for event in profile["traceEvents"]:
        target = event.get("args", {}).get("target", "")
        if event.get("cat") != "action processing" or not target.startswith("//"):
            continue
        actions, seconds = costs.get(target, (0, 0.0))
        costs[target] = (actions + 1, seconds + event["dur"] / 1e6)
    return costs


def table(costs, dependents):
    """Lines of Markdown, the dearest first: what the target takes, and all that a change of its headers rebuilds."""
    rows = ["| target | actions | cold, s | after a change of its headers, s |", "|---|---|---|---|"]
    for target, (actions, seconds) in sorted(costs.items(), key=lambda item: (-item[1][1], item[0])):
        again = sum(costs[other][1] for other in dependents.get(target, ()) if other in costs)
        rows.append(f"| `{target}` | {actions} | {seconds:.1f} | {again:.1f} |")
    return rows


def _bazel(base, *arguments):
    return ["bazel", "--output_base=" + base, *arguments]


def _timed_build(base, target, *flags):
    started = time.monotonic()
    quiet = ["--color=no", "--curses=no", "--noshow_progress", "--disk_cache="]
    result = subprocess.run(_bazel(base, "build", target, *quiet, *flags), stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{target} does not build:\n{result.stderr[-2000:]}")
    return time.monotonic() - started


def _dependents(base, target, labels):
    """{label: the labels that depend on it, itself included}, within what the target needs."""
    found = {}
    for label in labels:
        query = f"rdeps(deps({target}), {label})"
        result = subprocess.run(_bazel(base, "query", "--noshow_progress", query), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=True)
        found[label] = result.stdout.split()
    return found


def main():
    os.chdir(os.environ.get("BUILD_WORKSPACE_DIRECTORY") or os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    target = sys.argv[1] if len(sys.argv) > 1 else "//models/gpt:train"
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base")
        path = os.path.join(folder, "profile.gz")
        try:
            print(f"building {target} from nothing", file=sys.stderr, flush=True)
            cold = _timed_build(base, target, "--noslim_profile", "--profile=" + path,
                                "--experimental_profile_include_target_label")
            with gzip.open(path) as file:
                costs = action_seconds(json.load(file))
            total = sum(seconds for _, seconds in costs.values())
            print(f"| build of `{target}` | wall, s |\n|---|---|\n| cold ({total:.0f} s of actions) | {cold:.0f} |")
            for what, changed in _WARM:
                if changed:
                    with open(changed, "a") as file:
                        file.write("// A change.\n")
                try:
                    seconds = _timed_build(base, target)
                finally:
                    if changed:
                        with open(changed, "rb+") as file:
                            file.truncate(os.path.getsize(changed) - len("// A change.\n"))
                print(f"| again, after a change of {what} | {seconds:.1f} |", flush=True)
            print()
            print("\n".join(table(costs, _dependents(base, target, costs))))
        finally:
            subprocess.run(_bazel(base, "shutdown"), stderr=subprocess.DEVNULL)
            if os.path.exists(base):
                subprocess.run(["chmod", "-R", "u+w", base])


if __name__ == "__main__":
    main()
