"""Every command: (what was typed, words of the sentence). Exit code 2, no traceback, nothing is written."""

import json
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from r2et import cli
from r2et.cli import main
from tests.test_bad_inputs.bad_files import LONG, change, listing, put
from tests.test_bad_inputs.conftest import NETS, people

pytestmark = pytest.mark.timeout(60, func_only=True)

#: files of the folder {here}; people.csv, model/, net/ and records/ are beside them
FILES = {
    "mine_of_nets.py": NETS,
    "raises_on_import.py": "raise OSError('no licence')",
    "exits_on_import.py": "import sys; sys.exit(0)",
    "broken_syntax.py": "def make(:",
    "empty.csv": "",
    "header.csv": "age,pay,visits,bought\n",
    "junk.csv": b"\x00\xff\x01\xfe" * 50,
    "latin.csv": "age,señal\n1,0\n".encode("latin-1"),
    "utf16.csv": "age,bought\n1,0\n".encode("utf-16"),
    "twice.csv": "age,age,bought\n1,2,yes\n3,4,no\n",
    "hashes.csv": "age#pay#bought\n1#2#yes\n",
    "months.csv": "age,joined,bought\n1,03/04/2024,yes\n2,05/06/2024,no\n",
    "long_rows.csv": "age,pay,bought\n1,2,3,yes\n4,5,6,no\n",
    "one_class.csv": "age,pay,visits,bought\n" + "1,2,3,yes\n" * 9,
    "one_column.csv": "bought\nyes\nno\n",
    "hole.csv": "age,pay,visits,bought\n" + "1,,3,yes\n4,5,6,no\n" * 9,
    "unlabelled.csv": "age,pay,visits,bought\n1,2,3,\n4,5,6,\n",
    "huge.csv": "age,pay,visits,bought\n" + "1e400,2,3,yes\n4,5,6,no\n" * 9,
    "infinite.csv": "age,pay,visits,bought\n" + "inf,2,3,yes\n-inf,5,6,no\n" * 9,
    "large.csv": "age,pay,visits,bought\n" + "1e308,2,3,yes\n-1e308,5,6,no\n" * 9,
    "many_classes.csv": "age,pay,bought\n" + "".join(f"{i},{i},{i}\n" for i in range(60)),
    "mixed.csv": "age,pay,visits,bought\n" + "1,2,3,yes\nx,5,6,no\n" * 9,
    "pipe.csv": "pipe",
    "loop.csv": "loop",
    "device.csv": "device",
    "folder.csv": "folder",
    "socket.csv": "socket",
    "model.pt": b"pickle",
    "model.onnx": b"onnx",
    "net.safetensors": b"junk",
    "pipe.safetensors": "pipe",
    "pipe.pt2": "pipe",
    "file": "in the way",
}
TRAIN = "train --data {here}/people.csv --target bought --epochs 1 --method vanilla -o out "
REASONS = "reasons {here}/model --data {here}/people.csv -o r.csv "
SUBJECT = "{here}/model --data {here}/people.csv --target bought --limit 4 "
NET = "{here}/net --limit 4 "
FACTORY = "mine_of_nets:{} --data {{here}}/people.csv --target bought --limit 4 "
AFTER = FACTORY.format("Broken") + "--factory-arg after=5 "

ROWS = [
    # nothing that exists
    ("dance", "No such command"),
    ("data dance", "No such command"),
    ("bench dance", "No such command"),
    # demo
    ("demo --seed -1", "--seed must be", "-1"),
    ("demo --seed 99999999999999", "99999999999999"),
    ("demo --seed x", "--seed"),
    ("demo -o {here}/file", "is not a folder"),
    ("demo -o {here}/file/below", "is not a folder"),
    ("demo -o {long}", "File name too long"),
    ("demo -o {here}/pipe.csv", "is not a folder"),
    ("demo -o {here}/loop.csv", "symbolic links"),
    ("demo --colour red", "No such option"),
    # data
    ("data list --seed 3", "No such option"),
    ("data fetch", "names"),
    ("data fetch nowhere", "unknown data set 'nowhere'"),
    ("data fetch ''", "unknown data set ''"),
    ("data fetch {long}", "unknown data set"),
    ("data fetch abide oct", "abide"),
    # train: data
    ("train", "output"),
    ("train -o out --data nowhere", "unknown data set 'nowhere'"),
    ("train -o out --data nowhere.csv --target y", "there is no file 'nowhere.csv'"),
    ("train -o out --data {long}.csv --target y", "File name too long"),
    ("train -o out --data {long} --target y", "unknown data set"),
    ("train -o out --data {here} --target y", "is a folder, not a file"),
    ("train -o out --data {here}/folder.csv --target y", "is a folder, not a file"),
    ("train -o out --data {here}/pipe.csv --target y", "is a pipe, not a file"),
    ("train -o out --data {here}/device.csv --target y", "is a device, not a file"),
    ("train -o out --data {here}/socket.csv --target y", "is a socket, not a file"),
    ("train -o out --data {here}/loop.csv --target y", "symbolic links"),
    ("train -o out --data {here}/empty.csv --target y", "cannot be read as a table"),
    ("train -o out --data {here}/header.csv --target bought", "has no rows"),
    ("train -o out --data {here}/junk.csv --target y", "it is no text"),
    ("train -o out --data {here}/latin.csv --target y", "Known: age, señal"),
    ("train -o out --data {here}/utf16.csv --target y", "Known: age, bought"),
    ("train -o out --data {here}/latin.csv --target y --encoding utf-8", "not in utf-8"),
    ("train -o out --data {here}/latin.csv --target y --encoding klingon", "encoding='klingon'"),
    ("train -o out --data {here}/latin.csv --target y --encoding hex", "encoding='hex'"),
    ("train -o out --data {here}/people.csv --target bought --sep two", "separator='two'"),
    ("train -o out --data {here}/people.csv --target bought --decimal x", "decimal must be '.', ','"),
    ("train -o out --data {here}/people.csv --target bought --decimal , --thousands ,", "both ','"),
    ("train -o out --data {here}/people.csv --target bought --thousands x", "thousands must be"),
    ("train -o out --data {here}/people.csv --target bought --dates age", "joined=%d.%m.%Y"),
    ("train -o out --data {here}/people.csv --target bought --dates age=5", "how 'age' writes its dates"),
    ("train -o out --data {here}/people.csv --target bought --dates age=%d --dates age=%m", "'age' twice"),
    ("train -o out --data {here}/people.csv --target bought --dates age=%d.%m.%Y", "no date of the form %d.%m.%Y"),
    ("train -o out --data {here}/people.csv --target bought --dates when=ISO", "names 'when'"),
    ("train -o out --data {here}/people.csv --target bought --drop ages", "drop names 'ages', which is no column"),
    ("train -o out --data {here}/people.csv --target bought --drop bought", "cannot be left out"),
    ("train -o out --data {here}/people.csv --target bought --drop age --columns age", "0 of 1 columns are left"),
    ("train -o out --data {here}/months.csv --target bought", "--dates joined=%d/%m/%Y or joined=%m/%d/%Y"),
    ("train -o out --data adult --decimal ,", "--decimal is for a file of your own"),
    ("train -o out --data {here}/twice.csv --target bought", "several columns called 'age'"),
    ("train -o out --data {here}/hashes.csv --target bought", "separated by commas"),
    ("train -o out --data {here}/long_rows.csv --target bought", "line 2 has 4 values, more than the 3 names"),
    ("train -o out --data {here}/one_class.csv --target bought", "has one value, 'yes'"),
    ("train -o out --data {here}/one_column.csv --target bought", "no column besides"),
    ("train -o out --data {here}/unlabelled.csv --target bought", "has no labels: all 2 are missing"),
    ("train -o out --data {here}/huge.csv --target bought", "'age' of 'huge.csv' has infinite values"),
    ("train -o out --data {here}/infinite.csv --target bought", "'age' of 'infinite.csv' has infinite values"),
    ("check {here}/infinite.csv --target bought", "'age' of 'infinite.csv' has infinite values"),
    ("check {here}/one_class.csv --target bought", "has one value, 'yes'"),
    ("check {here}/many_classes.csv --target bought", "60 different values", "not a class"),
    ("check {here}/one_column.csv --target bought", "no column besides"),
    ("check {here}/nothing.csv --target bought", "there is no file"),
    ("check {here}/hole.csv", "--target"),
    ("check {here}/hole.csv --target bought --drop pai", "drop names 'pai'", "did you mean 'pay'?"),
    ("check adult --target income", "'adult' is no file"),
    # reasons
    ("reasons {here}/model", "--data"),
    ("reasons {here}/model --data {here}/people.csv", "--output"),
    ("reasons {here}/model --data {here}/people.csv -o out.xls", "written to .csv", "'out.xls'"),
    ("reasons {here}/model --data {here}/people.csv -o {here}/people.csv", "give the reasons another name"),
    ("reasons {here}/model --data {here}/people.csv -o {here}/file/r.csv", "cannot write"),
    ("reasons {here}/net --data {here}/people.csv -o r.csv", "neither a StableClassifier nor a StableRegressor"),
    ("reasons {here}/nothing --data {here}/people.csv -o r.csv", "nothing"),
    ("reasons {here}/model --data nowhere.csv -o r.csv", "there is no file 'nowhere.csv'"),
    ("reasons {here}/model --data {here}/file -o r.csv", "neither a CSV nor a Parquet file"),
    ("reasons {here}/model --data {here}/folder.csv -o r.csv", "is a folder, not a file"),
    ("reasons {here}/model --data {here}/pipe.csv -o r.csv", "is a pipe, not a file"),
    ("reasons {here}/model --data {here}/empty.csv -o r.csv", "cannot be read as a table"),
    ("reasons {here}/model --data {here}/header.csv -o r.csv", "has no rows"),
    ("reasons {here}/model --data {here}/junk.csv -o r.csv", "it is no text"),
    ("reasons {here}/model --data {here}/latin.csv -o r.csv", "no column 'pay', 'visits', which the model needs"),
    ("reasons {here}/model --data {here}/twice.csv -o r.csv", "several columns called 'age'"),
    ("reasons {here}/model --data {here}/mixed.csv -o r.csv", "column 'age' held numbers in fit and holds 'x'"),
    ("reasons {here}/model --data {here}/infinite.csv -o r.csv", "column 'age' has infinite values"),
    ("reasons {here}/model --data {here}/nested.parquet -o r.csv", "'age' (list<"),
    (REASONS + "--n 0", "n must be a whole number of at least 1"),
    (REASONS + "--toward maybe", "toward='maybe' is none of the classes"),
    (REASONS + "--exclude ,", "--exclude takes names"),
    (REASONS + "--exclude agee", "did you mean 'age'"),
    (REASONS + "--phrases nowhere.json", "--phrases takes a JSON file"),
    (REASONS + "--phrases {here}/junk.csv", "--phrases takes a JSON file"),
    (REASONS + "--plausible agee=1", "no column 'agee' of numbers"),
    (REASONS + "--plausible age", "column=number"),
    (REASONS + "--sep two", "separator='two'"),
    (REASONS + "--decimal , --thousands ,", "both ','"),
    (REASONS + "--encoding klingon", "encoding='klingon'"),
    (REASONS + "--dates age=5", "how 'age' writes its dates"),
    (REASONS + "--dates when=ISO", "names 'when'"),
    ("train -o out --data {here}/large.csv --target bought", "column 'age'"),
    ("train -o out --data {here}/many_classes.csv --target bought", "60 different values", "not a class"),
    ("train -o out --data {here}/nested.parquet --target bought", "'age' (list<"),
    ("train -o out --data {here}/structures.parquet --target bought", "'age' (struct<"),
    ("train -o out --data {here}/bytes.parquet --target bought", "'age' (binary)"),
    ("train -o out --data {here}/people.csv", "--target"),
    ("train -o out --data {here}/people.csv --target nothing", "no column 'nothing'"),
    ("train -o out --data {here}/people.csv --target ''", "no column ''"),
    # train: options
    (TRAIN + "--columns age,nothing", "no column 'nothing'"),
    (TRAIN + "--columns ''", "--columns takes names"),
    (TRAIN + "--columns age,age", "named twice"),
    (TRAIN + "--columns bought,age", "leave it out of the columns"),
    (TRAIN + "--columns age", "1 of 1 columns are left"),
    (TRAIN + "--categorical nothing", "'nothing'"),
    (TRAIN + "--categorical ,", "--categorical takes names"),
    (TRAIN + "--method magic", "unknown method 'magic'"),
    (TRAIN + "--seed -1", "--seed must be", "-1"),
    (TRAIN + "--seed 99999999999999", "99999999999999"),
    (TRAIN + "--test-fraction 1", "--test-fraction"),
    (TRAIN + "--test-fraction nan", "--test-fraction"),
    (TRAIN + "--test-fraction -0.1", "--test-fraction"),
    (TRAIN + "-k 0", "k=0"),
    (TRAIN + "-k -2", "k=-2"),
    (TRAIN + "-k x", "-k"),
    (TRAIN + "--epochs 0", "epochs=0"),
    (TRAIN + "--epochs -1", "epochs=-1"),
    (TRAIN + "--lr 0", "lr=0"),
    (TRAIN + "--lr nan", "lr must be a positive, finite number"),
    (TRAIN + "--lr inf", "lr must be a positive, finite number"),
    (TRAIN + "--batch-size 0", "batch_size=0"),
    (TRAIN + "--patience 0", "patience=0"),
    (TRAIN + "--set gap=1", "gap"),
    (TRAIN + "--method r2et --set gap=-3", "gap=-3"),
    (TRAIN + "--method r2et --set gap=nan", "gap=nan"),
    (TRAIN + "--method r2et --set gap=inf", "gap=inf"),
    (TRAIN + "--method r2et --set gap=1 --set gap=2", "'gap' twice"),
    (TRAIN + "--method r2et --set gap", "--set takes name=number"),
    (TRAIN + "--method r2et --set =3", "hyper-parameter"),
    (TRAIN + "--method r2et --set gap=x", "--set takes name=number"),
    (TRAIN + "--option size=3", "--option is for the data sets"),
    (TRAIN + "--preset paper", "--preset is for the data sets"),
    (TRAIN + "--from {here}/net", "--from is for the data sets"),
    (TRAIN + "-o {here}/file", "is not a folder"),
    (TRAIN + "-o {here}/file/below", "is not a folder"),
    (TRAIN + "-o {long}", "File name too long"),
    ("train -o out --data digits --option size=3", "no option 'size'"),
    ("train -o out --data digits --option size", "--option takes name=value"),
    ("train -o out --data digits --target y", "only one target"),
    ("train -o out --data digits --preset huge", "huge"),
    ("train -o out --columns age", "--columns is for a file"),
    ("train -o out --from nowhere", "there is no checkpoint"),
    ("train -o out --from {here}/file", "no checkpoint"),
    ("train -o out --seed 4294967296", "4294967296"),
    ("train -o {here}/net/checkpoint.json", "is not a folder"),
    ("train -o {long}", "File name too long"),
    ("train -o out --method r2et --set gap=-1", "gap=-1"),
    ("train -o out --epochs 0", "epochs"),
    ("train -o out --lr nan", "lr"),
    ("train -o out --k 30", "k=30"),
    ("train -o out --k 0", "k"),
    # attack
    ("attack", "model"),
    ("attack nowhere", "there is no model 'nowhere'"),
    ("attack {long}", "there is no model"),
    ("attack {here}/file", "not a model that r2et can open"),
    ("attack {here}/model.pt", "pickle"),
    ("attack {here}/model.onnx", "not a model that r2et can open"),
    ("attack {here}/pipe.pt2", "is a pipe, not a file"),
    ("attack {here}/loop.csv", "symbolic links"),
    ("attack {here}/net.safetensors", "package.module:factory"),
    ("attack {here}/folder.csv", "there is no checkpoint"),
    ("attack {here}/net --attack magic", "unknown attack 'magic'"),
    ("attack {here}/net --limit 0", "--limit must be at least 1, got 0"),
    ("attack {here}/net --limit -1", "--limit must be at least 1, got -1"),
    ("attack " + NET + "--seed -1", "--seed must be"),
    ("attack " + NET + "--attack er -k 0", "k=0"),
    ("attack " + NET + "--attack er -k 30", "k=30"),
    ("attack " + NET + "--attack er --radius 0", "radius=0"),
    ("attack " + NET + "--attack er --radius nan", "radius=nan"),
    ("attack " + NET + "--attack er --radius -1", "radius=-1"),
    ("attack " + NET + "--attack er --steps 0", "steps=0"),
    ("attack " + NET + "--attack er --norm l7", "l7"),
    ("attack " + NET + "--attack er --keep all", "'all'"),
    ("attack " + NET + "--attack worst-case --budget vast", "vast"),
    ("attack " + NET + "--attack constrained --weighting heavy", "heavy"),
    ("attack " + NET + "--data digits", "does not fit data set 'digits'"),
    ("attack " + NET + "--data nowhere", "unknown data set"),
    ("attack " + NET + "--option size=8", "no option 'size'"),
    ("attack " + NET + "--columns age", "--columns is for a file"),
    ("attack " + NET + "-o {here}", "it is a folder"),
    ("attack " + NET + "-o {here}/file/a.npz", "is not a folder"),
    ("attack " + NET + "-o {long}.npz", "File name too long"),
    ("attack " + NET + "-o {here}/pipe.csv", "is a pipe, not a file"),
    ("attack {here}/net --weights {here}/net.safetensors", "belong to package.module:factory"),
    ("attack " + SUBJECT + "--data {here}/pipe.csv", "is a pipe, not a file"),
    ("attack " + SUBJECT + "--data {here}/mixed.csv", "column 'age'"),
    ("attack " + SUBJECT + "--data {here}/twice.csv", "several columns called 'age'"),
    ("attack " + SUBJECT + "--data {here}/hashes.csv", "no column 'bought'"),
    ("attack " + SUBJECT + "--classes yes,no", "leave out --classes"),
    ("attack " + SUBJECT + "--data digits", "is an estimator of tables"),
    # certify
    ("certify nowhere", "there is no model 'nowhere'"),
    ("certify {here}/net --limit 0", "--limit must be at least 1"),
    ("certify " + NET + "--seed 99999999999999", "99999999999999"),
    ("certify " + NET + "--radii ''", "--radii takes numbers"),
    ("certify " + NET + "--radii 1,x", "--radii takes numbers"),
    ("certify " + NET + "--radii 1,-1", "radius must be a positive"),
    ("certify " + NET + "--radii nan", "radius must be a positive"),
    ("certify " + NET + "--radii 0", "radius must be a positive"),
    ("certify " + NET + "--method magic", "magic"),
    ("certify " + NET + "--method smoothing --bracket", "leave one of them out"),
    ("certify " + NET + "--method smoothing --sigma 0", "sigma"),
    ("certify " + NET + "--method smoothing --sigma nan", "sigma"),
    ("certify " + NET + "--method smoothing --samples 0", "samples"),
    ("certify " + NET + "--method smoothing --alpha 2", "alpha"),
    ("certify " + NET + "-k 0", "k=0"),
    ("certify " + NET + "-k -1", "k=-1"),
    ("certify " + NET + "-o {here}", "it is a folder"),
    ("certify " + NET + "-o {here}/file/a.csv", "is not a folder"),
    ("certify " + SUBJECT + "--data {here}/empty.csv", "cannot be read as a table"),
    # audit
    ("audit nowhere", "there is no model 'nowhere'"),
    ("audit {here}/model", "--data file.csv"),
    ("audit " + NET + "--radii ''", "--radii takes numbers"),
    ("audit " + NET + "--radii -1", "radius must be a positive"),
    ("audit " + NET + "--radii inf", "radius must be a positive"),
    ("audit " + NET + "--steps 0", "steps"),
    ("audit " + NET + "--budget vast", "unknown budget 'vast'"),
    ("audit " + NET + "--seed -1", "--seed must be"),
    ("audit {here}/net --limit -1", "--limit must be at least 1"),
    ("audit " + NET + "-k 0", "k=0"),
    ("audit " + NET + "--report {here}", "it is a folder"),
    ("audit " + NET + "--report {here}/file/a.html", "is not a folder"),
    ("audit " + NET + "--report {long}.html", "File name too long"),
    ("audit " + NET + "--compare nowhere", "there is no model 'nowhere'"),
    ("audit " + NET + "--compare-weights {here}/net.safetensors", "belongs to --compare"),
    ("audit " + SUBJECT + "--compare {here}/net", "net"),
    ("audit no_such_module:make --data {here}/people.csv", "cannot be imported"),
    ("audit raises_on_import:make --data {here}/people.csv", "importing 'raises_on_import' raised", "no licence"),
    ("audit exits_on_import:make --data {here}/people.csv", "importing 'exits_on_import' raised SystemExit"),
    ("audit broken_syntax:make --data {here}/people.csv", "SyntaxError"),
    ("audit " + FACTORY.format("nothing"), "has no 'nothing'"),
    ("audit " + FACTORY.format("NOT_CALLABLE"), "not a function or class"),
    ("audit " + FACTORY.format("exits"), "mine_of_nets:exits() raised SystemExit"),
    ("audit " + FACTORY.format("exits_with_success"), "raised SystemExit"),
    ("audit " + FACTORY.format("fails"), "raised KeyError: 'the data base'"),
    ("audit " + FACTORY.format("recurses"), "raised RecursionError"),
    ("audit " + FACTORY.format("runs_out"), "raised MemoryError"),
    ("audit " + FACTORY.format("returns_text"), "returned str"),
    ("audit " + FACTORY.format("good") + "--factory-arg x=1", "unexpected keyword argument 'x'"),
    ("audit " + FACTORY.format("good") + "--factory-arg =1", "--factory-arg takes name=value"),
    ("audit " + FACTORY.format("good") + "--weights {here}/none.safetensors", "no weights file"),
    ("audit " + FACTORY.format("good") + "--weights {here}/net.safetensors", "do not fit"),
    ("audit " + FACTORY.format("good") + "--weights {here}/pipe.safetensors", "is a pipe, not a file"),
    ("audit " + FACTORY.format("good") + "--weights {here}", "is a folder, not a file"),
    ("audit " + FACTORY.format("good") + "--weights {long}.safetensors", "no weights file"),
    ("audit " + FACTORY.format("good") + "--columns age,pay", "cannot take the 2 columns"),
    ("audit " + FACTORY.format("good") + "--classes yes,yes", "'no' is not among the classes"),
    ("audit " + FACTORY.format("Broken"), "KeyError: 'the weather'"),
    ("audit " + FACTORY.format("Broken") + "--factory-arg how=exits", "SystemExit"),
    ("audit " + FACTORY.format("Broken") + "--factory-arg how=text", "got str"),
    ("audit " + FACTORY.format("Broken") + "--factory-arg how=nan", "NaN or infinite logits"),
    ("audit " + FACTORY.format("Broken") + "--factory-arg how=probabilities", "returns probabilities"),
    ("audit " + FACTORY.format("Broken") + "--factory-arg 'how=one column'", "one output"),
    ("audit " + AFTER + "--steps 2", "KeyError: 'the weather'"),
    ("audit " + AFTER + "--steps 2 --factory-arg how=exits", "SystemExit"),
    ("attack " + AFTER + "--attack er --steps 9", "KeyError: 'the weather'"),
    ("certify " + FACTORY.format("fails"), "raised KeyError"),
    ("attack " + FACTORY.format("exits"), "raised SystemExit"),
    # bench
    ("bench run --preset nothing", "unknown preset 'nothing'"),
    ("bench run --processes 0", "processes=0"),
    ("bench run --seeds 0", "seeds=0"),
    ("bench run --seeds -1", "seeds=-1"),
    ("bench run --executor cloud", "unknown executor 'cloud'"),
    ("bench run --data nothing", "'nothing'"),
    ("bench run --tracker wandb", "unknown tracker 'wandb'"),
    ("bench run --records {here}/file", "is not a folder"),
    ("bench run --work {here}/file/below", "is not a folder"),
    ("bench run --records {long}", "File name too long"),
    ("bench table 4 --records {here}/records", "unknown table '4'"),
    ("bench table 1 --records nowhere", "there are no records"),
    ("bench table 1 --records {here}/file", "there are no records"),
    ("bench table 1 --records {here}/records --preset nothing", "unknown preset 'nothing'"),
    ("bench table 1 --records {here}/records --preset oct", "there are no records of 'oct'"),
    ("bench table 1 --records {here}/records --data nothing", "['nothing']"),
    ("bench table 1 --records {here}/records --format word", "unknown format 'word'"),
    ("bench table 1 --records {here}/records -o a.doc", "says no format"),
    ("bench table 1 --records {here}/records -o {here}", "it is a folder"),
    ("bench table 1 --records {here}/records -o {here}/file/a.md", "is not a folder"),
    ("bench table 1 --records {here}/records -o {long}.md", "File name too long"),
    ("bench table 1 --records {here}/list_records", "should be an object, it is []"),
    ("bench table 1 --records {here}/null_records", "should be an object, it is None"),
    ("bench table honest --records {here}/null_cell", "should be an object, it is None"),
    ("bench figure pie --records {here}/records -o a.svg", "unknown figure 'pie'"),
    ("bench figure tradeoff --records {here}/records -o a.svg", "no record has"),
    ("bench figure magnitude --records {here}/records -o a.doc", ".svg, .png or .pdf"),
    ("bench figure magnitude --records {here}/records -o {here}/file/a.svg", "is not a folder"),
    ("bench figure magnitude --records {here}/records -o {here}", "it is a folder"),
    ("bench figure magnitude --records {here}/bad_ranks -o a.svg", "should be a list"),
    ("bench figure magnitude --records {here}/uneven_ranks -o a.svg", "cannot be drawn"),
    ("bench figure attacks --records {here}/bad_points -o a.svg", "sensitivity is missing"),
    ("bench figure time --records {here}/list_records -o a.svg", "should be an object, it is []"),
    ("bench figure time --records nowhere -o a.svg", "there are no records"),
    ("bench figure saliency --records {here}/records -o a.svg --work nowhere", "saliency"),
]  # fmt: skip

CHANGED_RECORDS = {
    "list_records": ("index", "", []),
    "null_records": ("index", "", None),
    "null_cell": ("one", "", None),
    "bad_ranks": ("one", "studies.magnitude.values.rank", 3),
    "uneven_ranks": ("one", "studies.magnitude.values.rank", [1, 2, 3]),
    "bad_points": ("one", "studies.constrained.values.points", [{"attack": "ERAttack", "weights": "qp"}]),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory, classifier, network, records) -> Path:
    folder = tmp_path_factory.mktemp("here")
    people().to_csv(folder / "people.csv", index=False)
    for name, content in FILES.items():
        put(folder, name, content)
    nested = {"nested": [[1, 2], [3]], "structures": [{"a": 1}, {"a": 2}], "bytes": [b"x", b"y"]}
    for name, values in nested.items():
        pd.DataFrame({"age": values, "bought": ["yes", "no"]}).to_parquet(folder / f"{name}.parquet")
    for name, source in (("model", classifier), ("net", network), ("records", records)):
        shutil.copytree(source, folder / name)
    for name, (file, place, value) in CHANGED_RECORDS.items():
        change(shutil.copytree(records, folder / name) / "smoke" / f"{file}.json", place, value)
    return folder


@pytest.fixture
def typed(here, tmp_path, monkeypatch, capsys):
    """Run a line in an empty folder: exit code, standard output and error; nothing may be written anywhere."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("R2ET_DEBUG", raising=False)
    for name in ("R2ET_DATA", "R2ET_CACHE"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))

    def run(line: str) -> tuple[object, str, str]:
        before = listing(here, tmp_path)
        with pytest.raises(SystemExit) as caught:
            main([part.format(here=here, long=LONG) for part in shlex.split(line)])
        assert listing(here, tmp_path) == before, "something was written"
        return (caught.value.code or 0, *capsys.readouterr())

    return run


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:90])
def test_a_mistake_ends_with_one_sentence(typed, row):
    line, *words = row
    code, out, err = typed(line)
    assert code == 2, (code, out, err)
    assert "Traceback" not in out + err
    assert "bug" not in err
    told = [text for text in err.splitlines() if text.startswith(("error: ", "Usage: "))]
    assert len(told) == 1, err
    flat = " ".join(err.replace("│", " ").split())
    for word in words:
        assert word in flat
    assert len(err) < 3000


def test_the_same_lines_without_the_mistake_are_done(typed, here):
    """The negative control: the options that the table breaks one by one are good ones."""
    for line in (
        "attack " + NET + "--attack er --steps 2 --json",
        "attack " + SUBJECT + "--attack er --steps 2 --json",
    ):
        code, out, _ = typed(line)
        assert code == 0
        assert json.loads(out)["attacks"][0]["rows"] == 4
    code, out, _ = typed("attack " + FACTORY.format("good") + "--attack er --steps 2 --json")
    assert code == 0, out
    assert typed("bench table 1 --records {here}/records")[0] == 0


# --- what is not the user's mistake ---------------------------------------------------------------------------


def fail(error):
    def run(*_):
        raise error

    return run


INTERNAL = [
    (OSError(28, "No space left on device", "out.json"), 2, "error: 'out.json': No space left on device"),
    (MemoryError("Unable to allocate 9 TiB"), 2, "not enough memory", "9 TiB", "--limit"),
    (ZeroDivisionError("division by zero"), 1, "this is a bug of r2et", "division by zero", "R2ET_DEBUG=1"),
    (RecursionError("maximum recursion depth exceeded"), 1, "this is a bug of r2et", "recursion"),
]


@pytest.mark.parametrize("row", INTERNAL, ids=lambda row: type(row[0]).__name__)
def test_other_exceptions_are_one_sentence_too(typed, monkeypatch, row):
    error, expected, *words = row
    monkeypatch.setattr(cli.data, "print_table", fail(error))
    code, _, err = typed("data list")
    assert code == expected
    assert len(err.splitlines()) == 1
    for word in words:
        assert word in err


def test_the_traceback_can_be_had(typed, monkeypatch):
    monkeypatch.setattr(cli.data, "print_table", fail(ZeroDivisionError("division by zero")))
    monkeypatch.setenv("R2ET_DEBUG", "1")
    code, _, err = typed("data list")
    assert code == 1
    assert "Traceback (most recent call last)" in err
    assert "ZeroDivisionError: division by zero" in err
