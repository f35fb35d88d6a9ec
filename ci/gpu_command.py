"""The command line of ci/gpu."""
import argparse
import datetime
import itertools
import os
import re
import shutil
import sys
import tempfile

import gpu_pack
import gpu_parts
import gpu_run

_WORKSPACE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _names(text, known, what, parser):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        parser.error("no %s %s; there are %s" % (what, ", ".join(unknown) or "given", ", ".join(known)))
    return names


def arguments(description, argv):
    parts = "\n".join("  %-12s %s" % (name, part.__doc__.splitlines()[0]) for name, (part, _) in gpu_parts.PARTS.items())
    parser = argparse.ArgumentParser(prog="ci/gpu", description=description, epilog="parts, in this order:\n" + parts,
                                     formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("verb", nargs="?", choices=["pack", "run"], help="one half; default: both")
    parser.add_argument("archive", nargs="?", help="of run: an archive of pack, or the folder that it makes")
    parser.add_argument("--to", metavar="FILE", default="sluice_gpu.tar.xz", help="of pack: the archive (default: %(default)s)")
    parser.add_argument("--out", metavar="DIR", help="of run: the report's folder (default: "
                        "bench/records/DATE-CARD, and nowhere of the emulation)")
    parser.add_argument("--parts", default=",".join(gpu_parts.PARTS),
                        help="some parts, with commas; facts always comes first")
    parser.add_argument("--models", default=",".join(gpu_parts.MODELS), help="some of %s" % ",".join(gpu_parts.MODELS))
    parser.add_argument("--precisions", default=",".join(gpu_parts.PRECISIONS),
                        help="some of %s, of what is timed" % ",".join(gpu_parts.PRECISIONS))
    parser.add_argument("--minutes", type=float, default=9, help="that all takes at most; what has no time left is "
                        "SKIPPED (default: %(default)s)")
    parser.add_argument("--emulated", action="store_true",
                        help="of pack: programs of the emulation, for a rehearsal on a CPU")
    options = parser.parse_args(argv)
    options.parts = _names(options.parts, gpu_parts.PARTS, "part", parser)
    options.models = _names(options.models, gpu_parts.MODELS, "model", parser)
    options.precisions = _names(options.precisions, gpu_parts.PRECISIONS, "precision", parser)
    if (options.verb == "run") != bool(options.archive):
        parser.error("run, and run alone, is given an archive or a folder")
    return options


def record_name(date, card):
    """"2026-11-23-h100-80gb-hbm3"."""
    words = re.sub(r"[^a-z0-9]+", "-", card.lower().replace("nvidia", "")).strip("-")
    return "%s-%s" % (date, words or "no-card")


def free_name(folder):
    """The folder, or where it is there already, a name beside it: an earlier report stays."""
    numbered = (folder + ("-%d" % number if number > 1 else "") for number in itertools.count(1))
    return next(name for name in numbered if not os.path.exists(name))


def _run(options, given, scratch, date):
    folder, manifest = gpu_run.unpack(given, os.path.join(scratch, "unpacked"))
    if manifest["emulated"] and not options.out:
        raise gpu_pack.Error("--out: expected a folder, as what the emulation says is no record")
    out = options.out or os.path.join(scratch, "report")
    context = gpu_run.run(folder, manifest, out, options.parts, options.minutes, options.models,
                          options.precisions)
    if not options.out:
        # The card's name is known only now.
        to = free_name(os.path.join(_WORKSPACE, "bench", "records", record_name(date, context.machine.card)))
        shutil.copytree(out, to)
        print("the report: %s" % to)
    return gpu_run.went_well(context)


def main(description, argv):
    options = arguments(description, argv)
    date = datetime.date.today().isoformat()
    scratch = tempfile.mkdtemp(prefix="sluice_gpu-")
    try:
        given = options.archive
        if options.verb != "run":
            given = os.path.abspath(options.to) if options.verb == "pack" else os.path.join(scratch, options.to)
            print(gpu_pack.pack(_WORKSPACE, given, options.emulated, date, scratch), flush=True)
        return 0 if options.verb == "pack" or _run(options, given, scratch, date) else 1
    except gpu_pack.Error as error:
        print("ci/gpu: %s" % error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
