"""A record is read once, and again when it has changed; what is done to one does not reach the next reader."""

import json
import os

import pytest

from r2et.files import reading
from r2et_bench.records import FORMAT, VERSION, Store, read_record

INDEX = {"kind": "index", "plan": "smoke", "cells": []}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "records", tmp_path / "work")
    store.write("smoke", "index", INDEX)
    return store


def test_a_record_is_read_once_until_it_is_written_again(store, monkeypatch):
    read = []
    whole = reading.parse_json
    monkeypatch.setattr(reading, "parse_json", lambda text: read.append(text) or whole(text))
    for _ in range(3):
        assert store.read("smoke", "index") == {"format": FORMAT, "version": VERSION, **INDEX}
    assert len(read) == 1
    # of the same length, so that only the file itself is another
    store.write("smoke", "index", {**INDEX, "plan": "snake"})
    assert store.read("smoke", "index")["plan"] == "snake"
    assert len(read) == 2


def test_a_change_of_what_was_read_stays_with_its_reader(store):
    store.read("smoke", "index")["cells"].append("mine")
    assert store.read("smoke", "index")["cells"] == []


def test_no_record_and_a_link_to_nowhere_are_told_apart(store, tmp_path):
    assert store.read("smoke", "other") is None
    os.symlink(tmp_path / "nowhere.json", tmp_path / "link.json")
    with pytest.raises(Exception, match="there is no file"):
        read_record(tmp_path / "link.json")


def test_a_record_in_place_is_read_anew(store):
    path = store.path("smoke", "index")
    assert read_record(path)["plan"] == "smoke"
    path.write_text(json.dumps({"format": FORMAT, "version": VERSION, **INDEX, "plan": "a longer name"}))
    assert read_record(path)["plan"] == "a longer name"
