from pathlib import Path

import numpy as np
import pytest

from r2et.errors import DataError
from r2et.tables.declared import Category, Flag, Number, Share, checked, codes, numbers
from r2et.tables.encoding import Encoding
from r2et.tables.files import read_texts
from tests.data.files import write_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "t.csv", ["size,colour,spare,ok", "1,red,?,yes", "3,blue,N/A,no", "8,teal,,no"])


class TestRead:
    def test_named_columns_in_the_order_asked_for(self, path: Path) -> None:
        frame = read_texts(path, ["ok", "spare", "size"])
        assert frame.to_numpy().tolist() == [["yes", "?", "1"], ["no", "N/A", "3"], ["no", "", "8"]]

    def test_no_header(self, path: Path) -> None:
        write_lines(path, ["| a comment", "1, red", "2, blue", ""])
        frame = read_texts(path, ["size", "colour"], header=False, comment="|")
        assert frame.to_dict("list") == {"size": ["1", "2"], "colour": ["red", "blue"]}

    def test_missing_columns_are_named(self, path: Path) -> None:
        with pytest.raises(DataError, match=r"t\.csv has no column 'width', 'height'"):
            read_texts(path, ["size", "width", "height"])
        with pytest.raises(DataError, match=r"t\.csv has no column 'e', 'f'"):
            read_texts(path, ["a", "b", "c", "d", "e", "f"], header=False)

    def test_too_many_columns(self, path: Path) -> None:
        with pytest.raises(DataError, match=r"has 4 columns, expected 2: a, b"):
            read_texts(path, ["a", "b"], header=False)

    @pytest.mark.parametrize("content", [b"", b'size,ok\n1,"ye', b"\xff\xfe\x00\x81", b"size,ok\n1,\xff\n"])
    def test_not_a_table(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"t\.csv"):
            read_texts(path, ["size", "ok"])

    def test_ragged_rows(self, path: Path) -> None:
        write_lines(path, ["1,2", "1,2,3,4"])
        with pytest.raises(DataError, match=r"t\.csv cannot be read.* Expected 2 fields in line 2, saw 4"):
            read_texts(path, ["a", "b"], header=False)

    def test_no_rows(self, path: Path) -> None:
        write_lines(path, ["size,ok"])
        with pytest.raises(DataError, match=r"t\.csv has no rows"):
            read_texts(path, ["size", "ok"])

    def test_unreadable(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="is a folder, not a file"):
            read_texts(tmp_path, ["size"])


class TestEncode:
    FEATURES = (
        Number("size", "size"),
        Number("log size", "size", np.log),
        Flag("good", "ok", {"yes": 1, "no": 0}),
        Category("hue", "colour", {"red": "warm", "blue": "cold", "teal": "cold"}),
    )

    def test_values_names_and_groups(self, path: Path) -> None:
        frame = checked(read_texts(path, ["size", "colour", "ok"]), self.FEATURES)
        assert frame.columns.tolist() == ["size", "log size", "good", "hue"]
        assert frame["hue"].tolist() == ["warm", "cold", "cold"]
        np.testing.assert_allclose(
            frame.iloc[:, :3].astype(float), [[1, 0, 1], [3, np.log(3), 0], [8, np.log(8), 0]]
        )
        encoding = Encoding.declared(self.FEATURES, frame)
        assert encoding.names == ("size", "log size", "good", "hue: warm", "hue: cold")
        # a flag that is declared may be moved between 0 and 1, a category may not
        assert encoding.domain.groups == ((3, 4),)
        np.testing.assert_array_equal(encoding.encode(frame)[:, 2:], [[1, 1, 0], [0, 0, 1], [0, 0, 1]])

    def test_numbers_are_scaled_by_some_rows_and_bounded_by_them(self, path: Path) -> None:
        frame = checked(read_texts(path, ["size", "colour", "ok"]), self.FEATURES)
        encoding = Encoding.declared(self.FEATURES, frame.iloc[:2])
        np.testing.assert_allclose(encoding.encode(frame)[:, 0], [-1, 1, 6])
        lower, upper = np.asarray(encoding.domain.lower), np.asarray(encoding.domain.upper)
        np.testing.assert_allclose((lower[[0, 2, 3]], upper[[0, 2, 3]]), [[-1, 0, 0], [1, 1, 1]])

    def test_a_category_without_rows_is_a_feature_all_the_same(self, path: Path) -> None:
        frame = checked(read_texts(path, ["size", "colour", "ok"]), self.FEATURES).iloc[1:]
        assert Encoding.declared(self.FEATURES, frame).names[3:] == ("hue: warm", "hue: cold")

    def test_shares_stay_as_they_are(self, path: Path) -> None:
        write_lines(path, ["grey", "0.25", "0.5"])
        features = [Share("pixel", "grey")]
        frame = checked(read_texts(path, ["grey"]), features)
        encoding = Encoding.declared(features, frame)
        assert encoding.encode(frame).tolist() == [[0.25], [0.5]]
        assert (float(encoding.domain.lower), float(encoding.domain.upper)) == (0, 1)
        write_lines(path, ["grey", "0.25", "1.5"])
        with pytest.raises(DataError, match=r"row 2 of .*'1.5' in column 'grey', .* not a number from 0 to 1"):
            checked(read_texts(path, ["grey"]), features)

    def test_bad_values_are_quoted_with_their_place(self, path: Path) -> None:
        frame = read_texts(path, ["size", "colour", "ok", "spare"])
        with pytest.raises(DataError, match=r"row 2 of .*t\.csv has 'blue' in column 'colour'.* 'red', 'teal'"):
            codes(frame, "colour", {"red": 0, "teal": 1})
        with pytest.raises(DataError, match=r"row 1 of .*'\?' in column 'spare', .* not a number \(3 such"):
            numbers(frame, "spare")
        with pytest.raises(DataError, match=r"row 1 of .*'\?'.*\(2 such"):
            numbers(frame, "spare", blank=True)

    def test_a_transform_without_a_result(self, path: Path) -> None:
        path.write_text(path.read_text().replace("3,blue", "-3,blue"))
        with pytest.raises(DataError, match=r"row 2 .*'-3' in column 'size', .* possible value of 'log size'"):
            checked(read_texts(path, ["size", "colour", "ok"]), self.FEATURES)
