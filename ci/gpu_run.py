"""Runs the parts of ci/gpu one after the other, each in its time, and writes the report of what came of them."""
import json
import lzma
import os
import tarfile

import gpu_pack
import gpu_parts
import gpu_report

_RESERVE = 10.0  # seconds of the whole that the report is written in


def unpack(given, scratch):
    """The folder of an archive, or the folder that was given, and its manifest; gpu_pack.Error says what is wrong."""
    folder = given
    if not os.path.isdir(given):
        try:
            with tarfile.open(given, "r:xz") as tar:
                tar.extractall(scratch, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        except (OSError, tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise gpu_pack.Error("%s is no archive of ci/gpu pack: %s" % (given, error)) from error
        folder = os.path.join(scratch, gpu_pack.FOLDER)
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            return folder, json.load(file)
    except (OSError, ValueError) as error:
        raise gpu_pack.Error("%s is no folder of ci/gpu pack: %s" % (folder, error)) from error


def run_parts(context, names, minutes, after=lambda: None):
    """Each part gets its own time at most, and no part more than is left of the whole. `after` is called after each."""
    end = context.clock() + 60 * minutes - _RESERVE
    for number, name in enumerate(names, 1):
        part, limit = gpu_parts.PARTS[name]
        context.part = name
        context.ends = min(end, context.clock() + limit)
        context.log("[%d/%d, %d s left] %s: %s" % (number, len(names), max(0, end - context.clock()), name,
                                                  part.__doc__.splitlines()[0]))
        _run_part(context, name, part)
        after()


def _run_part(context, name, part):
    if name != "facts" and not context.machine.card:
        context.say("card", gpu_parts.SKIPPED, "facts found no GPU that runs a kernel")
        return
    try:
        part(context)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        context.say("the part itself", gpu_parts.FAILED, "%s: %s" % (type(error).__name__, error))


def _print(line):
    print(line, flush=True)


def run(folder, manifest, out, names, minutes, models, precisions=gpu_parts.PRECISIONS, log=_print):
    """The Context that the parts leave; its report is in `out`, from the first part on. Of what unpack gave."""
    os.makedirs(out, exist_ok=True)
    lines = []

    def say(line):
        lines.append(line)
        log(line)

    # Others look for a card's facts first, whatever was asked for.
    names = ["facts"] + [name for name in gpu_parts.PARTS if name in names and name != "facts"]
    context = gpu_parts.Context(folder=os.path.abspath(folder), out=os.path.abspath(out), emulated=manifest["emulated"],
                                models=tuple(models), precisions=tuple(precisions), log=say)

    def write():
        gpu_report.write(out, context, manifest, names)
        with open(os.path.join(out, "log.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines + context.failures) + "\n")

    run_parts(context, names, minutes, write)
    states = [outcome.state for outcome in context.outcomes]
    say("ci/gpu: %d passed, %d failed, %d skipped" % tuple(
        states.count(state) for state in (gpu_parts.PASSED, gpu_parts.FAILED, gpu_parts.SKIPPED)))
    write()
    log("written: " + ", ".join(sorted(os.path.join(out, name) for name in os.listdir(out))))
    return context


def went_well(context):
    """What is missing is no failure; no GPU at all is one."""
    return bool(context.machine.card) and all(each.state != gpu_parts.FAILED for each in context.outcomes)
