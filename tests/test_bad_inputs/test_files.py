"""Every reader of files: (content, words of the sentence), one table a reader. Nothing hangs or is written."""

import gzip
import io
import json
import resource
import shutil
import tarfile

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save

import r2et
from r2et import data
from r2et.certificates.smoothing import NoisyCounts
from r2et.checkpoints import load_model
from r2et.errors import CheckpointError, DataError, InputError
from r2et.estimator import StableClassifier
from r2et.models import ResNet
from r2et.tables import read_frame, read_table
from r2et_bench.paper_tables import make_table
from r2et_bench.records import Store
from r2et_bench.results import load_results
from tests.test_bad_inputs.bad_files import (
    GONE,
    LONG,
    change,
    commas,
    gzip_bomb,
    link_to_itself,
    listing,
    lying_npy,
    mat_bomb,
    mat_cell,
    npy,
    npz,
    npz_bomb,
    png_bomb,
    put,
    tar_of,
    zip_bomb,
    zipped,
)

pytestmark = pytest.mark.timeout(60, func_only=True)
HUGE = 10**9
DEEP = b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
#: 99 levels: few enough for Python, more than any file of r2et
NESTED = json.dumps({"format": "r2et-checkpoint", "version": 1, "a": json.loads("[" * 99 + "]" * 99)}).encode()


def refused(tmp_path, kind, words, read):
    """The reader raises the right kind of error with the words, in little memory, and writes nothing."""
    before, memory = listing(tmp_path), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(kind) as caught:
        read()
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 1500, "a sentence, not the file"
    assert listing(tmp_path) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 600 * 2**10, "600 MB were taken"


def rows(table):
    """Parameters of a table whose last entries are the words."""
    # not named after functions and packed files: they hold addresses and times, which differ between two processes
    titles = [f"{row[0]!r:.40}-{number}" for number, row in enumerate(table)]
    return pytest.mark.parametrize("row", table, ids=titles)


# --- whatever is read: what is not a file ---------------------------------------------------------------------

READERS = {
    "model": (load_model, "checkpoint.json", CheckpointError),
    "classifier": (StableClassifier.load, "checkpoint.json", CheckpointError),
    "table": (read_frame, "a.csv", DataError),
    "packed table": (read_frame, "a.csv.gz", DataError),
    "parquet": (read_frame, "a.parquet", DataError),
    "counts": (NoisyCounts.load, "a.npz", InputError),
    "graphs": (lambda path: data.load_graphs(path, [0, 1]), "a.npy", DataError),
    "weights": (lambda path: ResNet(1, 2, widths=(4,)).load_weights(path), "a.safetensors", InputError),
    "record": (lambda path: load_results(Store(path.parent.parent, path), ["smoke"]), "index.json", InputError),
}
STRANGE = {
    "pipe": "a pipe, not a file",
    "socket": "a socket, not a file",
    "device": "a device, not a file",
    "loop": "oo many levels of symbolic links",
}


@pytest.mark.parametrize("content", STRANGE)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_not_opened(tmp_path, name, content):
    read, file, kind = READERS[name]
    (tmp_path / "smoke").mkdir()
    path = put(tmp_path / "smoke", file, content)
    refused(tmp_path, kind, [STRANGE[content]], lambda: read(path))


@pytest.mark.parametrize("name", [name for name in READERS if name != "record"])
@pytest.mark.parametrize(
    ("bad", "words"), [(LONG, "File name too long"), ("nul\0nul", "null byte"), ("none", "there is no file")]
)
def test_names_that_no_file_can_have(tmp_path, name, bad, words):
    read, file, kind = READERS[name]
    path = tmp_path / (bad + file)
    shown = "there is no" if file == "checkpoint.json" else words
    refused(tmp_path, kind, [shown], lambda: read(path))


# --- checkpoints ----------------------------------------------------------------------------------------------

CHECKPOINT = [
    ("", b"", "not readable as JSON"),
    ("", b"\x00\xff\xfe junk", "not readable as JSON"),
    ("", b'{"a": 1} {"b": 2}', "Extra data"),
    ("", b'{"version": 1, "version": 2}', "'version' is there twice"),
    ("", b'{"a": NaN}', "NaN is not a finite number"),
    ("", b'{"a": -Infinity}', "-Infinity is not a finite number"),
    ("", b'{"a": 1e400}', "1e400 is not a finite number"),
    ("", b'{"a": ' + b"9" * 9999 + b"}", "not readable as JSON"),
    ("", DEEP, "nested too deeply"),
    ("", NESTED, "nested too deeply"),
    ("", [], "its format is not"),
    ("", None, "its format is not"),
    ("", "text", "its format is not"),
    ("format", 3, "its format is not"),
    ("version", "1", "version '1'"),
    ("version", None, "version None"),
    ("kind", None, "holds None, not a model"),
    ("tensors", GONE, "tensors is missing"),
    ("tensors", [], "tensors should be an object"),
    ("tensors.file", 3, "tensors.file should be text, it is 3"),
    ("tensors.file", "../../etc/passwd", "there is no file"),
    ("tensors.file", "", "is a folder, not a file"),
    ("tensors.file", "a\0b", "cannot be opened"),
    ("tensors.sha256", "00", "its checksum differs"),
    ("tensors.sha256", None, "tensors.sha256 should be text"),
    ("architecture", GONE, "architecture is missing"),
    ("architecture", [1], "architecture should be an object"),
    ("architecture.name", GONE, "do not fit their architecture"),
    ("architecture.name", "no such", "unknown model 'no such'"),
    ("architecture.name", [], "unknown model []"),
    ("architecture.hidden", [HUGE, HUGE], "do not fit their architecture"),
    # the first of these layers has room on any machine, the second on none
    ("architecture.hidden", [10**7, 10**7], "do not fit their architecture"),
    ("architecture.hidden", [10**30], "do not fit their architecture"),
    ("architecture.hidden", [1e9], "do not fit their architecture"),
    ("architecture.hidden", [-3], "do not fit their architecture"),
    ("architecture.hidden", "three", "do not fit their architecture"),
    ("architecture.hidden", [3] * 100_000, "are too few for"),
    ("architecture.features", HUGE, "size mismatch"),
    ("architecture.activation", "eval", "unknown activation 'eval'"),
    ("architecture.beta", "x", "do not fit their architecture"),
    ("architecture", {"name": "resnet", "channels": 1, "classes": 2, "blocks": HUGE}, "at most 1000 blocks"),
    ("architecture", {"name": "cnn", "channels": 1, "size": HUGE, "classes": 2}, "do not fit"),
    ("architecture", {"name": "gcn", "nodes": HUGE, "hidden": HUGE}, "do not fit"),
    ("architecture", {"name": "siamese", "embedding": {"name": "linear", "features": HUGE, "classes": 9}}, "not"),
    ("information", None, "information should be an object, it is None"),
    ("information", [1], "information should be an object"),
    ("information", {"__pairs__": [1]}, "__pairs__: [0] should be a list, it is 1"),
    ("information", {"__pairs__": [[1]]}, "pairs of key and value"),
    ("information", {"__pairs__": [[[], 1]]}, "pairs of key and value"),
    ("information", {"__pairs__": None}, "should be a list, it is None"),
    ("information", {"a": {"__float__": "x"}}, "should be 'inf' or '-inf' or 'nan', it is 'x'"),
    ("information", {"a": {"__float__": []}}, "should be 'inf'"),
]  # fmt: skip


@rows(CHECKPOINT)
def test_checkpoints(tmp_path, network, row):
    place, value, *words = row
    folder = shutil.copytree(network, tmp_path / "net")
    change(folder / "checkpoint.json", place, value)
    state = torch.random.get_rng_state()
    refused(tmp_path, CheckpointError, words, lambda: load_model(folder))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_loading_draws_no_random_numbers(network):
    torch.manual_seed(3)
    state = torch.random.get_rng_state()
    first, second = load_model(network)[0], load_model(network)[0]
    assert torch.equal(torch.random.get_rng_state(), state)
    x = torch.ones(2, 30)
    assert torch.equal(first(x), second(x))


WEIGHTS = [
    ("cut", lambda good, blob: blob[:-3], "its checksum differs"),
    ("empty", lambda good, blob: b"", "its checksum differs"),
    ("signed cut", lambda good, blob: (blob[:-3],), "cannot be read"),
    ("signed empty", lambda good, blob: (b"",), "cannot be read"),
    ("junk", lambda good, blob: (b"\xff" * 64,), "cannot be read"),
    ("header of 2**60 bytes", lambda good, blob: ((2**60).to_bytes(8, "little") + b"{}",), "cannot be read"),
    ("header of 99 MB", lambda good, blob: ((99 * 2**20).to_bytes(8, "little") + b"{}",), "cannot be read"),
    ("no tensors", lambda good, blob: (save({}),), "in no numbers"),
    ("whole numbers", lambda good, blob: (save({k: v.int() for k, v in good.items()}),), "not in one precision"),
    ("complex", lambda good, blob: (save({k: v.cfloat() for k, v in good.items()}),), "not in one precision"),
    ("two precisions", lambda good, blob: (save({**good, "0.bias": torch.zeros(3).half()}),), "one precision"),
    ("another shape", lambda good, blob: (save({**good, "0.bias": torch.zeros(9)}),), "size mismatch"),
    ("one too few", lambda good, blob: (save({k: v for k, v in good.items() if k != "0.bias"}),), "Missing key"),
    ("one too many", lambda good, blob: (save({**good, "x": torch.zeros(1)}),), "Unexpected key"),
]  # fmt: skip


@rows(WEIGHTS)
def test_weights(tmp_path, network, row):
    import hashlib

    _, make, *words = row
    folder = shutil.copytree(network, tmp_path / "net")
    path = next(folder.glob("*.safetensors"))
    blob = make(load_model(network)[0].state_dict(), path.read_bytes())
    # in a tuple: with a checksum that agrees, as a forger would write it
    if isinstance(blob, tuple):
        (blob,) = blob
        change(folder / "checkpoint.json", "tensors.sha256", hashlib.sha256(blob).hexdigest())
    path.write_bytes(blob)
    refused(tmp_path, CheckpointError, words, lambda: load_model(folder))


# --- estimators -----------------------------------------------------------------------------------------------

ESTIMATOR = [
    ("information.estimator", GONE, "not a StableClassifier"),
    ("information.estimator_version", 99, "has version 99"),
    ("information.estimator_version", None, "has version None"),
    ("information.parameters", None, "parameters should be an object"),
    ("information.parameters", [], "parameters should be an object"),
    ("information.parameters.hidden", None, "NoneType"),
    ("information.parameters.hidden", [0], "hidden must be a whole number"),
    ("information.parameters.k", "8", "k must be a whole number"),
    ("information.parameters.k", 0, "k=0"),
    ("information.parameters.lr", {"__float__": "nan"}, "lr must be a positive, finite number"),
    ("information.parameters.method", "magic", "unknown method 'magic'"),
    ("information.parameters.colour", "red", "unexpected keyword argument 'colour'"),
    ("information.predicted", None, "predicted should be an object"),
    ("information.predicted.values", "yes", "the classes: values should be a list"),
    ("information.predicted.values", [[1], [2]], "the classes: values[0] should be text or"),
    ("information.predicted.values", ["a", "a"], "does not describe classes"),
    ("information.predicted.values", ["a", "b", "c"], "the parts do not fit"),
    ("information.predicted.dtype", "<U1000000000", "not a complete StableClassifier"),
    ("information.predicted.dtype", "<U500000000", "does not describe classes"),
    ("information.predicted.dtype", "V8", "does not describe classes"),
    ("information.predicted.dtype", "no type", "not a complete StableClassifier"),
    ("information.predicted.dtype", 8, "the classes: dtype should be text"),
    ("information.feature_names", [1, 2, 3], "feature_names[0] should be text, it is 1"),
    ("information.feature_names", ["age"], "the parts do not fit"),
    ("information.columns", None, "columns should be a list"),
    ("information.columns", [1], "columns[0] should be an object, it is 1"),
    ("information.columns.0.kind", "moment", "does not describe a column"),
    ("information.columns.0.kind", GONE, "does not describe a column"),
    ("information.columns.0.mean", "x", "mean should be a number, it is 'x'"),
    ("information.columns.0.mean", True, "mean should be a number, it is True"),
    ("information.columns.0.mean", {"__float__": "nan"}, "not those of a column"),
    ("information.columns.0.mean", 10**400, "mean should be a number"),
    ("information.columns.0.scale", 0, "not those of a column"),
    ("information.columns.0.lower", 1e9, "not those of a column"),
    ("information.columns.0.name", None, "name should be text"),
    ("information.columns.0.colour", "red", "colour is nothing that belongs there"),
    (
        "information.columns.0",
        {"kind": "category", "name": "age", "values": [[]], "frequencies": [1.0]},
        "values[0] should be",
    ),
    ("information.k", "2", "k should be a whole number, it is '2'"),
    ("information.k", 2.0, "k should be a whole number, it is 2.0"),
    ("information.k", True, "k should be a whole number, it is True"),
    ("information.k", 0, "k=0"),
    ("information.k", 10**9, "k=1000000000"),
    ("information.settings", [], "settings should be an object"),
    ("information.settings", {"gap": "x"}, "settings.gap should be a number"),
    ("information.candidates", None, "candidates should be a list"),
    ("information.history", [3], "history[0] should be an object"),
    ("information.sanity", None, "sanity should be an object"),
    ("information.sanity", {}, "sanity.auc is missing"),
    ("information.sanity.auc", "high", "sanity.auc should be a number"),
]  # fmt: skip


@rows(ESTIMATOR)
def test_estimators(tmp_path, classifier, row):
    place, value, *words = row
    folder = shutil.copytree(classifier, tmp_path / "model")
    change(folder / "checkpoint.json", place, value)
    refused(tmp_path, CheckpointError, words, lambda: StableClassifier.load(folder))


# --- tables ---------------------------------------------------------------------------------------------------


def parquet(**columns):
    out = io.BytesIO()
    pd.DataFrame(columns).to_parquet(out)
    return out.getvalue()


def repetitive_parquet():
    """Twenty million rows in a few kilobytes."""
    import pyarrow as pa
    from pyarrow import parquet as files

    out = io.BytesIO()
    files.write_table(pa.table({"a": pa.nulls(2 * 10**7)}), out, row_group_size=2 * 10**7)
    return out.getvalue()


def long_texts_parquet():
    """A text of a thousand characters, stored once and said in a hundred and fifty thousand rows."""
    import pyarrow as pa
    from pyarrow import parquet as files

    out = io.BytesIO()
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(150_000, np.int32)), pa.array(["x" * 1000]))
    files.write_table(pa.table({"a": texts.cast(pa.string())}), out)
    return out.getvalue()


TABLES = [
    ("a.csv", None, "there is no file"),
    ("a.csv", "folder", "is a folder, not a file"),
    ("a.xlsx", "a,b\n1,2\n", "neither a CSV nor a Parquet file by its name"),
    ("a.csv", "", "cannot be read as a table"),
    ("a.csv", "\n\n\n", "cannot be read as a table"),
    ("a.csv", "a,b\n", "has no rows"),
    ("a.csv", b"\x00\x01\x02\xff\xfe", "it is no text", "NUL bytes"),
    ("a.csv", b"a,y\n1,\x00\n", "1 NUL bytes", "--encoding utf-16-le"),
    ("a.csv", b"\xe8\xec\xff,y\n\xef\xf0\xe8\xe2\xe5\xf2,0\n", "not in UTF-8", "--encoding cp1251"),
    ("a.csv", "a,y\n1,0\n".encode("utf-16")[:-1], "cannot be read as a table"),
    ("a.csv", "a,a,y\n1,2,0\n", "several columns called 'a'"),
    ("a.csv", "\ufeffa,a,y\n1,2,0\n", "several columns called 'a'"),
    ("a.csv", "a;b;a;b\n1;2;3;4\n", "several columns called 'a', 'b'"),
    ("a.csv", "a,y\n1,2,0\n3,4,1\n", "line 2 has 3 values, more than the 2 names"),
    ("a.csv", "a,y\n1,0\n1,2,3,4\n", "cannot be read as a table"),
    ("a.csv", 'a,y\n"1,0\n', "cannot be read as a table"),
    ("a.csv", "a" * 200_000 + ",y\n1,0\n", "field larger than field limit"),
    ("a.csv.gz", "a,y\n1,0\n", "cannot be read"),
    ("a.csv.gz", gzip.compress(b"a,y\n1,0\n" * 99)[:-20], "cannot be read"),
    ("a.csv.gz", gzip_bomb, "unpack it yourself"),
    ("a.parquet", "a,y\n1,0\n", "cannot be read as a table"),
    ("a.parquet", b"PAR1" + bytes(99) + b"PAR1", "cannot be read as a table"),
    ("a.parquet", parquet(a=[1.0], y=[1])[:-9], "cannot be read as a table"),
    ("a.parquet", parquet(a=[[1, 2], [3]], y=[0, 1]), "lists, structures or bytes: 'a' (list<"),
    ("a.parquet", parquet(a=[{"b": 1}], y=[0]), "'a' (struct<"),
    ("a.parquet", parquet(a=[b"x"], y=[0]), "'a' (binary)"),
    ("a.parquet", parquet(), "has no rows"),
    ("a.parquet", repetitive_parquet, "unpacks to 20,000,000 rows of 1 columns"),
    ("a.parquet", long_texts_parquet, "bytes of text", "unpack it yourself"),
    ("a.csv.gz", commas, "values", "unpack it yourself"),
]


@rows(TABLES)
def test_tables(tmp_path, row):
    name, content, *words = row
    path = put(tmp_path, name, content() if callable(content) else content)
    refused(tmp_path, DataError, words, lambda: read_frame(path))


LABELLED = [
    ("a#y\n1#0\n", "y", "no column 'y'", "separated by commas", "--sep"),
    ("a y\n1 0\n", "y", "no column 'y'", "separated by commas"),
    ("y\n1\n0\n", "y", "no column besides 'y'"),
    ("a,y\n1,\n2,\n", "y", "has no labels: all 2 are missing"),
    ("a,y\n1,0\n", "z", "no column 'z'"),
    ("a,y\n1,0\n", None, "--target"),
    ("a,y\n1,0\n", "", "no column ''"),
    ("a,y\n1,0\n", LONG, "no column 'xxx"),
]


@rows(LABELLED)
def test_labels(tmp_path, row):
    content, target, *words = row
    path = put(tmp_path, "a.csv", content)
    refused(tmp_path, InputError, words, lambda: read_table(path, target))


@pytest.mark.parametrize("text", ["\ufeffage;y\n1;0\n", '"a;b";y\n1;0\n', "a\ty\n1\t0\n"])
def test_marks_of_other_programs_are_understood(tmp_path, text):
    """The negative control: byte-order marks, names in quotes and tabs are no mistake."""
    frame = read_frame(put(tmp_path, "a.csv", text))
    assert frame.columns.tolist()[1:] == ["y"]
    assert frame.shape == (1, 2)
    assert not frame.columns[0].startswith("\ufeff")


# --- arrays ---------------------------------------------------------------------------------------------------

TWO = np.zeros((2, 3, 3))
ARRAYS = [
    ("a.npz", b"", "cannot be read"),
    ("a.npz", b"PK\x03\x04 junk", "cannot be read"),
    ("a.npz", npz(x=TWO)[:-40], "cannot be read"),
    ("a.npz", zip_bomb(), "unpacks to 3,221,225,472"),
    ("a.npz", npz_bomb, "unpacks to 163,840,", "unpack it yourself"),
    ("a.npz", zipped(x=lying_npy((10**12,))), "announces float64 of shape (1000000000000,)"),
    ("a.npz", zipped(x=lying_npy((-1,))), "may be cut short"),
    ("a.npz", zipped(x=lying_npy((1,))), "may be cut short"),
    ("a.npz", zipped(x=b"junk"), "cannot be read"),
    ("a.npz", npz(x=np.array([{}], dtype=object)), "pickled objects"),
    ("a.npz", npz(), "holds nothing"),
    ("a.npz", npz(a=TWO, b=TWO), "say which one with key="),
    ("a.npz", npz(x=np.zeros((0, 10**8))), "(0, 100000000), which holds nothing"),
    ("a.npy", b"", "cannot be read"),
    ("a.npy", lying_npy((10**12,)), "may be cut short"),
    ("a.npy", lying_npy((10**12,))[:20], "cannot be read"),
    ("a.npy", npy(np.array([{}], dtype=object)), "pickled objects"),
    ("a.npy", npy(np.zeros(3)), "an array of graphs is (M, R, R)"),
    ("a.npy", npy(TWO + 1j), "not numbers"),
    ("a.npy", npy(TWO * np.nan), "NaN or infinite"),
    ("a.mat", b"junk", "cannot be read"),
    ("a.mat", mat_bomb, "unpack it yourself"),
    ("a.mat", mat_cell(10**8), "announces more entries of a cell or structure than it holds"),
    ("a.txt", b"1,2", "is not one of"),
]


@rows(ARRAYS)
def test_arrays(tmp_path, row):
    name, content, *words = row
    path = put(tmp_path, name, content() if callable(content) else content)
    refused(tmp_path, DataError, words, lambda: data.load_graphs(path, [0, 1]))


COUNTS = [
    ("junk", b"junk", "not a file of noisy counts"),
    ("bomb", zip_bomb("counts"), "unpack it yourself"),
    ("nothing", npz(), "KeyError"),
    ("lying", zipped(counts=lying_npy((10**12,))), "may be cut short"),
]


@rows(COUNTS)
def test_noisy_counts(tmp_path, row):
    _, content, *words = row
    words = [word for word in words if word != "KeyError"] or ["counts"]
    path = put(tmp_path, "a.npz", content)
    refused(tmp_path, InputError, words, lambda: NoisyCounts.load(path))


# --- data sets in R2ET_DATA -----------------------------------------------------------------------------------


def tar_bomb():
    member = tarfile.TarInfo("data_batch_1.bin")
    member.size = 150 * 2**20
    return gzip_bomb(member.tobuf())


SETS = [
    ("mnist", "mnist/mnist.npz", b"junk", "cannot be read"),
    ("mnist", "mnist/mnist.npz", zip_bomb("x_train"), "unpack it yourself"),
    ("mnist", "mnist/mnist.npz", zipped(x_train=lying_npy((60_000, 28, 28))), "may be cut short"),
    ("mnist-pairs", "mnist/mnist.npz", npz(x_train=np.zeros(3)), "has no array"),
    ("cifar10", "cifar10/cifar-10-binary.tar.gz", b"junk", "cannot be read"),
    ("cifar10", "cifar10/cifar-10-binary.tar.gz", tar_bomb, "unpack it yourself"),
    ("cifar10", "cifar10/cifar-10-binary.tar.gz", tar_of(link_to_itself()), "data_batch_1.bin"),
    ("cifar10", "cifar10/cifar10_10k2k.npz", zip_bomb("y_test"), "unpack it yourself"),
    ("abide", "abide/abide_aal116_corr.npz", zip_bomb("corr_triu"), "unpack it yourself"),
    ("abide", "abide/abide_aal116_corr.npz", npz(corr_triu=np.zeros(3), y=[1], age=[1]), "corr_triu must be"),
    ("oct", "oct/kermany_oct_128_dme_vs_normal.npz", npz(x=np.array([{}])), "pickled objects"),
    ("bank", "bank/bank-full.csv", b"\xff\xfe\x00", "cannot be read"),
    ("bank", "bank/bank-full.csv", b"", "cannot be read"),
    ("compas", "compas/compas-scores-two-years.csv", b"a,b\n1,2\n", "has no column"),
]


@rows(SETS)
def test_data_sets(tmp_path, monkeypatch, row):
    name, place, content, *words = row
    path = tmp_path / "files" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(content() if callable(content) else content)
    monkeypatch.setenv("R2ET_DATA", str(tmp_path / "files"))
    monkeypatch.setenv("R2ET_CACHE", str(tmp_path / "cache"))
    refused(tmp_path, DataError, words, lambda: data.load(name))


IMAGES = [
    ("a.png", png_bomb(), "cannot be read as an image"),
    ("a.png", b"junk", "cannot be read as an image"),
    ("a.png", b"", "cannot be read as an image"),
    ("a.png", "pipe", "a pipe, not a file"),
    ("a.png", "loop", "symbolic links"),
    ("a.gif", "device", "a device, not a file"),
    ("a.exe", b"MZ", "is not one of"),
]


@rows(IMAGES)
def test_images(tmp_path, row):
    from PIL import Image

    name, content, *words = row
    for kind in ("cat", "dog"):
        (tmp_path / kind).mkdir()
        for number in range(8):
            Image.new("L", (4, 4), number).save(tmp_path / kind / f"z{number}.png")
    put(tmp_path / "cat", name, content)
    refused(tmp_path, DataError, words, lambda: data.load_images(tmp_path, colour="grey"))


# --- records --------------------------------------------------------------------------------------------------

RECORDS = [
    ("index", "", b"", "not readable as JSON"),
    ("index", "", b"[1", "not readable as JSON"),
    ("index", "", DEEP, "nested too deeply"),
    ("index", "", [], "is not a benchmark record: it should be an object"),
    ("index", "", None, "is not a benchmark record: it should be an object"),
    ("index", "", 3, "is not a benchmark record"),
    ("index", "format", "other", "it says format 'other'"),
    ("index", "version", 1, "version 1", "r2et_bench.migration RECORDS"),
    ("index", "version", 3, "version 3"),
    ("index", "kind", "cells", "kind should be 'cell' or 'search' or 'index'"),
    ("index", "kind", GONE, "kind is missing"),
    ("index", "kind", [], "kind should be"),
    ("index", "cells", None, "cells should be a list"),
    ("index", "cells", {}, "cells should be a list"),
    ("index", "cells", [1], "cells[0] should be an object, it is 1"),
    ("index", "cells", [], "there are no records"),
    ("index", "cells.0.name", GONE, "cells[0].name is missing"),
    ("index", "cells.0.name", "../../secret", "not the name of a record"),
    ("index", "cells.0.name", "index", "is no cell, it is a index"),
    ("index", "cells.0.method", "magic", "'magic'"),
    ("index", "cells.0.data", None, "cells[0].data should be text"),
    ("one", "", [], "it should be an object"),
    ("one", "", None, "it should be an object"),
    ("one", "", b'{"a": NaN}', "NaN is not a finite number"),
    ("one", "cell", None, "cell should be an object"),
    ("one", "cell", [], "cell should be an object"),
    ("one", "cell.seed", "0", "cell.seed should be a whole number"),
    ("one", "cell.colour", "red", "cell.colour is nothing that belongs there"),
    ("one", "cell.settings", {"gap": "x"}, "cell.settings.gap should be a number"),
    ("one", "training", None, "training should be an object"),
    ("one", "training.passed", "yes", "training.passed should be true or false"),
    ("one", "training.epochs", "many", "training.epochs should be a whole number"),
    ("one", "training.error", 3, "training.error should be text"),
    ("one", "studies", [], "studies should be an object"),
    ("one", "studies.prediction", 3, "studies.prediction should be an object"),
    ("one", "studies.prediction.settings", None, "studies.prediction.settings should be an object"),
    ("one", "studies.prediction.values", [1], "studies.prediction.values should be an object"),
    ("one", "studies.prediction.error", [], "studies.prediction.error should be text"),
    ("one", "timing", GONE, "timing is missing"),
    ("one", "timing.training", "long", "timing.training should be a number"),
    ("one", "kind", "search", "data is missing"),
]


@rows(RECORDS)
def test_records(tmp_path, records, row):
    name, place, value, *words = row
    folder = shutil.copytree(records, tmp_path / "records")
    change(folder / "smoke" / f"{name}.json", place, value)
    store = Store(folder, tmp_path / "work")
    refused(tmp_path, InputError, words, lambda: make_table("honest", load_results(store, ["smoke"])))


def test_the_untouched_files_are_read(classifier, network, records, tmp_path):
    """The negative control of all tables."""
    assert StableClassifier.load(classifier).k_ == 2
    assert load_model(network)[1] == {"data": "breast-cancer", "k": 8}
    assert make_table("1", load_results(Store(records, tmp_path))).sections[0].rows[0][0] == "Vanilla"
    assert issubclass(r2et.errors.DataError, InputError)
