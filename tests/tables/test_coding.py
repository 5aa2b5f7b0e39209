from pathlib import Path

import numpy as np
import pytest

from r2et.errors import DataError
from r2et.tables.coding import Category, Flag, Number, codes, encode, labels, numbers, read_table
from tests.data.files import write_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "t.csv", ["size,colour,spare,ok", "1,red,?,yes", "3,blue,N/A,no", "8,teal,,no"])


class TestRead:
    def test_named_columns_in_the_order_asked_for(self, path: Path) -> None:
        frame = read_table(path, ["ok", "spare", "size"])
        assert frame.to_numpy().tolist() == [["yes", "?", "1"], ["no", "N/A", "3"], ["no", "", "8"]]

    def test_no_header(self, path: Path) -> None:
        write_lines(path, ["| a comment", "1, red", "2, blue", ""])
        frame = read_table(path, ["size", "colour"], header=False, comment="|")
        assert frame.to_dict("list") == {"size": ["1", "2"], "colour": ["red", "blue"]}

    def test_missing_columns_are_named(self, path: Path) -> None:
        with pytest.raises(DataError, match=r"t\.csv has no column 'width', 'height'"):
            read_table(path, ["size", "width", "height"])
        with pytest.raises(DataError, match=r"t\.csv has no column 'e', 'f'"):
            read_table(path, ["a", "b", "c", "d", "e", "f"], header=False)

    def test_too_many_columns(self, path: Path) -> None:
        with pytest.raises(DataError, match=r"has 4 columns, expected 2: a, b"):
            read_table(path, ["a", "b"], header=False)

    @pytest.mark.parametrize("content", [b"", b'size,ok\n1,"ye', b"\xff\xfe\x00\x81", b"size,ok\n1,\xff\n"])
    def test_not_a_table(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"t\.csv"):
            read_table(path, ["size", "ok"])

    def test_ragged_rows(self, path: Path) -> None:
        write_lines(path, ["1,2", "1,2,3,4"])
        with pytest.raises(DataError, match=r"t\.csv cannot be read.* Expected 2 fields in line 2, saw 4"):
            read_table(path, ["a", "b"], header=False)

    def test_no_rows(self, path: Path) -> None:
        write_lines(path, ["size,ok"])
        with pytest.raises(DataError, match=r"t\.csv has no rows"):
            read_table(path, ["size", "ok"])

    def test_unreadable(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="is a folder, not a file"):
            read_table(tmp_path, ["size"])


class TestEncode:
    FEATURES = (
        Number("size", "size"),
        Number("log size", "size", np.log),
        Flag("good", "ok", {"yes": 1, "no": 0}),
        Category("hue", "colour", {"red": "warm", "blue": "cold", "teal": "cold"}),
    )

    def test_values_names_and_groups(self, path: Path) -> None:
        table = encode(read_table(path, ["size", "colour", "ok"]), self.FEATURES)
        assert table.names == ("size", "log size", "good", "hue: warm", "hue: cold")
        assert table.numeric.tolist() == [True, True, False, False, False]
        assert table.groups == ((3, 4),)
        np.testing.assert_allclose(
            table.values, [[1, 0, 1, 1, 0], [3, np.log(3), 0, 0, 1], [8, np.log(8), 0, 0, 1]]
        )

    def test_bad_values_are_quoted_with_their_place(self, path: Path) -> None:
        frame = read_table(path, ["size", "colour", "ok", "spare"])
        with pytest.raises(DataError, match=r"row 2 of .*t\.csv has 'blue' in column 'colour'.* 'red', 'teal'"):
            codes(frame, "colour", {"red": 0, "teal": 1})
        with pytest.raises(DataError, match=r"row 1 of .*'\?' in column 'spare', .* not a number \(3 such"):
            numbers(frame, "spare")
        with pytest.raises(DataError, match=r"row 1 of .*'\?'.*\(2 such"):
            numbers(frame, "spare", blank=True)

    def test_a_transform_without_a_result(self, path: Path) -> None:
        path.write_text(path.read_text().replace("3,blue", "-3,blue"))
        with pytest.raises(DataError, match=r"row 2 .*'-3' in column 'size', .* possible value of 'log size'"):
            encode(read_table(path, ["size", "colour", "ok"]), self.FEATURES)

    def test_labels(self, path: Path) -> None:
        y = labels(read_table(path, ["ok"]), "ok", {"no": 0, "yes": 1})
        assert y.dtype == np.int64
        assert y.tolist() == [1, 0, 0]
