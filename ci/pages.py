"""Shows the pages and pictures that programs of this build write in a headless Chromium, and goes through every tab of each.

    ./bazelw run //ci:pages                                  # writes them and looks at them; .ci/run has it as a test
    ./bazelw run //ci:pages -- --pictures=DIR [PAGE...]      # of these pages instead; a PNG of every tab

What is wrong with a page is an error or any other message of its script, a use of the network, an empty tab, a number or a
text that is not what the page's data says, "undefined" or NaN for a reader to see, and text that nobody can read because it
lies on other text.
"""
import argparse
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import zlib

from bench import figures, groups, report
from bench.report_testing import kernel_figures, step
from tools import plot_log

import browser
import explain_page
import static_page

_SMALL_GPT = ["--preset=tiny", "--layers=2", "--hidden=32", "--heads=4", "--sequence_length=32", "--batch=8", "--sample_length=8",
              "--data=models/gpt/testdata/fixed.txt"]
_SMALL_FACES = ["--preset=synthetic", "--network=mobilefacenet", "--classes=1000", "--width=4", "--embedding=16", "--image_size=16",
                "--batch=16"]
_SHORT = ["--steps=6", "--warmup=1", "--eval_every=2", "--save_every=0", "--measure_peak=false"]


def _run(program, *arguments):
    ran = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode != 0:
        raise RuntimeError("%s ended with %d: %s" % (program, ran.returncode, ran.stdout[-2000:]))


def _pairs(path, count=24, size=16):
    """Writes pairs of pictures as InsightFace's sets have them, every other of one picture and itself, as Python 2 pickles them."""

    def picture(shade):
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
               chunk(b"IDAT", zlib.compress((b"\0" + bytes([shade]) * 3 * size) * size)) + chunk(b"IEND", b""))
        return b"T" + struct.pack("<I", len(png)) + png

    pictures = b"".join(picture(5 * i) + picture(5 * i if i % 2 == 0 else 255 - 5 * i) for i in range(count))
    truths = b"".join(b"\x89" if i % 2 else b"\x88" for i in range(count))
    path.write_bytes(b"\x80\x02](" + pictures + b"e](" + truths + b"e\x86.")


def write_pages(folder):
    """Writes pages of every kind into the folder; returns (path, whether its tabs are used as well as looked at)."""
    _run("models/gpt/train", *_SMALL_GPT, "--mesh=data=2 model=2 pipe=2", "--micro_batches=4", "--explain",
         "--explain_html=%s/plan.html" % folder)
    _run("models/gpt/train", *_SMALL_GPT, *_SHORT, "--mesh=data=2 pipe=2", "--micro_batches=2", "--out=%s/run" % folder,
         "--trace=%s/trace.json" % folder, "--explain_html=%s/measured.html" % folder)
    _run("models/gpt/train", *_SMALL_GPT, "--mesh=data=1", "--explain", "--explain_html=%s/one_device.html" % folder)
    _pairs(folder / "pairs.bin")
    _run("models/insightface/train", *_SMALL_FACES, *_SHORT, "--verification=%s/pairs.bin" % folder, "--out=%s/faces" % folder,
         "--explain_html=%s/faces.html" % folder)
    log = str(folder / "run" / "log.jsonl")
    plot_log.main([log, "--out=%s/loss.svg" % folder, "--title=GPT"])
    _write_report(folder, log)
    return [(folder / "plan.html", True), (folder / "measured.html", True), (folder / "one_device.html", False),
            (folder / "faces.html", False), (folder / "loss.svg", False), (folder / "faces" / "roc_pairs.svg", False),
            (folder / "report.html", False)]


def _write_report(folder, log):
    """Writes the benchmark report of what programs printed once: the programs themselves take minutes."""
    own = figures.of_step(step(benchmark="resnet_step", size="resnet50", median=10.0, limit_ms=4.5, limit_convolution_flops=1e9))
    eager = figures.of_step(step(benchmark="resnet_step", size="resnet50", median=30.0))
    sections = [("resnet", groups.GROUPS["resnet"], figures.rows_of([own], [("PyTorch eager", [eager], ""), ("JAX", [], "missing: jax")])),
                ("ops", groups.GROUPS["ops"], figures.rows_of([kernel_figures()], []))]
    troubles = []
    curves = report.curves_of(["gpt"], {"gpt": log}, troubles)
    report.write(str(folder), {"cpu": "of a test"}, "of a test", sections, ["resnet"], curves, troubles, [])


def look(chromium, path, script, use, pictures):
    """Returns (what is wrong with the page, in words what was looked at)."""
    page = chromium.open(path.as_uri(), script)
    data = explain_page.data_of(path) if path.suffix == ".html" else None
    names = str(pathlib.Path(pictures) / path.stem) if pictures else None
    try:
        if data:
            names_of_programs = ", ".join(program["name"] for program in data["programs"])
            return (explain_page.check(page, data, use, names),
                    "%d tabs of each program: %s" % (len(explain_page.TABS), names_of_programs))
        wrong = static_page.check(page)
        if names:
            page.resize(static_page.WIDE, static_page.HEIGHT)
            page.picture(names + ".png", whole=True)
        return wrong, "the page" if path.suffix == ".html" else "the picture"
    finally:
        page.close()


def look_at_all(pages, pictures):
    """Prints what was looked at; returns whether nothing is wrong."""
    script, well = static_page.probe(), True
    with browser.Browser() as chromium:
        for path, use in pages:
            begun = time.monotonic()
            try:
                wrong, looked_at = look(chromium, path, script, use, pictures)
            except browser.Error as error:
                wrong, looked_at = [str(error)], "not to its end"
            print("looked at: %s: %s%s, %.1f s: %s" % (path.name, looked_at, ", used as a reader uses them" if use else "",
                                                      time.monotonic() - begun, "%d WRONG" % len(wrong) if wrong else "well"),
                  flush=True)
            for line in wrong:
                print("  %s: %s" % (path.name, line))
            well = well and not wrong
    return well


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="a page or picture (SVG); without any, those that this build writes")
    parser.add_argument("--pictures", metavar="DIR", help="a folder for a picture of every tab")
    options = parser.parse_args(arguments)
    if not browser.path():
        print("SKIPPED: pages in a browser: no chromium is on PATH; tools/install_deps.sh ci/apt-packages.txt installs it")
        return 0
    caller = pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    pictures = caller / options.pictures if options.pictures else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    if options.pages:
        return 0 if look_at_all([((caller / page).resolve(), True) for page in options.pages], pictures) else 1
    with tempfile.TemporaryDirectory() as folder:
        return 0 if look_at_all(write_pages(pathlib.Path(folder)), pictures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
