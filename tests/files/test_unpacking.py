"""MATLAB files of scipy's own are read whatever they hold; the same with a lie in them is not."""

import zlib

import numpy as np
import pytest
from scipy import io, sparse

from r2et.errors import DataError
from r2et.files.unpacking import check_mat

RNG = np.random.default_rng(0)
CELLS = np.empty((2, 3), dtype=object)
for place in np.ndindex(2, 3):
    CELLS[place] = RNG.normal(size=(3, 3))
VARIABLES = {
    "numbers": RNG.normal(size=(4, 5, 5)),
    "small numbers": np.ones((50, 50), np.uint8),
    "one number": 3.0,
    "nothing": np.zeros((0, 5)),
    "text": "words of a person",
    "texts": np.array(["a", "longer"]),
    "truth": np.ones((9, 9), bool),
    "complex": np.ones((3, 3)) * 1j,
    "sparse": sparse.coo_matrix(([1.0], ([0], [0])), shape=(10_000, 10_000)),
    "cells": CELLS,
    "structure": {"a": 1.0, "b": {"c": np.zeros((2, 2)), "names": CELLS}},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", VARIABLES)
def test_what_scipy_writes_is_let_through(name, packed, tmp_path):
    io.savemat(tmp_path / "a.mat", {"x": VARIABLES[name], "y": np.arange(3)}, do_compression=packed)
    check_mat(tmp_path / "a.mat")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["cells", "numbers"])
def test_more_entries_than_bytes_are_refused(name, packed, tmp_path):
    io.savemat(tmp_path / "a.mat", {"x": VARIABLES[name]}, do_compression=False)
    content = bytearray((tmp_path / "a.mat").read_bytes())
    # head of the file, of the variable, and of its flags with their eight bytes; then the sizes with their head
    first = 128 + 8 + 16 + 8
    content[first : first + 4] = (10**7).to_bytes(4, "little")
    if packed:
        body = zlib.compress(bytes(content[128:]))
        content[128:] = (15).to_bytes(4, "little") + len(body).to_bytes(4, "little") + body
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(DataError, match="more entries of a cell or structure than it holds"):
        check_mat(tmp_path / "a.mat")
