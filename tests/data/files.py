"""Small files with the layout of the real ones, and where the real ones are."""

import os
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from r2et.data import DATA_SETS, adult, bank, compas

REAL = os.environ.get("R2ET_DATA", "")
needs_real_files = pytest.mark.skipif(not REAL, reason="R2ET_DATA is not set: the real files are not at hand")

# The header of the public COMPAS file: 53 columns, two of them twice, and people's names among them.
PUBLIC_HEADER = (
    "id name first last compas_screening_date sex dob age age_cat race juv_fel_count decile_score "
    "juv_misd_count juv_other_count priors_count days_b_screening_arrest c_jail_in c_jail_out c_case_number "
    "c_offense_date c_arrest_date c_days_from_compas c_charge_degree c_charge_desc is_recid r_case_number "
    "r_charge_degree r_days_from_arrest r_offense_date r_charge_desc r_jail_in r_jail_out violent_recid "
    "is_violent_recid vr_case_number vr_charge_degree vr_offense_date vr_charge_desc type_of_assessment "
    "decile_score score_text screening_date v_type_of_assessment v_decile_score v_score_text v_screening_date "
    "in_custody out_custody priors_count start end event two_year_recid"
)
PUBLIC_COMPAS = PUBLIC_HEADER.split()


def change_info(monkeypatch: pytest.MonkeyPatch, name: str, **changes: object) -> None:
    """What the registry says about a data set, for one test."""
    entry = DATA_SETS.find(name)
    source = replace(entry.thing, info=replace(entry.thing.info, **changes))
    monkeypatch.setitem(DATA_SETS.entries, name, replace(entry, thing=source))


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def adult_rows(rows: int, stop: str, seed: int) -> list[str]:
    draw = random.Random(seed)

    def row() -> str:
        values = {
            "age": draw.randint(17, 90),
            "workclass": draw.choice(list(adult.WORKCLASS)),
            "fnlwgt": draw.randint(10_000, 90_000),
            "education": "HS-grad",
            "education-num": draw.randint(1, 16),
            "marital-status": draw.choice(list(adult.MARITAL)),
            "occupation": draw.choice(list(adult.OCCUPATION)),
            "relationship": draw.choice(list(adult.RELATIONSHIP)),
            "race": draw.choice(list(adult.RACE)),
            "sex": draw.choice(list(adult.SEX)),
            "capital-gain": draw.choice([0, 0, 0, 5178]),
            "capital-loss": draw.choice([0, 0, 0, 1902]),
            "hours-per-week": draw.randint(1, 99),
            "native-country": draw.choice(["United-States", *adult.COUNTRY]),
            "income": draw.choice(["<=50K", "<=50K", ">50K"]) + stop,
        }
        return ", ".join(str(values[column]) for column in adult.COLUMNS)

    return [row() for _ in range(rows)]


def write_adult(folder: Path, rows: int = 100) -> None:
    write_lines(folder / "adult" / "adult.data", [*adult_rows(rows, "", seed=0), ""])
    lines = ["|1x3 Cross validator", *adult_rows(rows // 2, ".", seed=1), ""]
    write_lines(folder / "adult" / "adult.test", lines)


def write_bank(folder: Path, rows: int = 150) -> Path:
    draw = random.Random(0)

    def pick(values: Iterable[str]) -> str:
        return f'"{draw.choice(list(values))}"'

    def row() -> str:
        client = [draw.randint(18, 95), '"admin."', pick(bank.MARITAL), pick(bank.EDUCATION), pick(bank.YES_NO)]
        account = [draw.randint(-500, 9000), pick(bank.YES_NO), pick(bank.YES_NO)]
        call = [pick(bank.CONTACT), draw.randint(1, 31), '"may"', draw.randint(0, 900)]
        past = [draw.randint(1, 9), draw.choice([-1, -1, 90]), draw.randint(0, 5), pick(bank.OUTCOME)]
        return ";".join(map(str, [*client, *account, *call, *past, pick(bank.YES_NO)]))

    header = (
        "age job marital education default balance housing loan contact day month duration campaign pdays "
        "previous poutcome y"
    )
    head = ";".join(f'"{name}"' for name in header.split())
    return write_lines(folder / "bank" / "bank-full.csv", [head, *(row() for _ in range(rows))])


def compas_rows(rows: int) -> list[dict[str, str]]:
    """Rows that pass the usual filter, then five that do not."""
    draw = random.Random(0)

    def row(**changed: str) -> dict[str, str]:
        return {
            "sex": draw.choice(list(compas.SEX)),
            "age": str(draw.randint(18, 80)),
            "age_cat": draw.choice(list(compas.AGE)),
            "race": draw.choice(list(compas.RACE)),
            "juv_fel_count": str(draw.randint(0, 3)),
            "juv_misd_count": str(draw.randint(0, 3)),
            "juv_other_count": str(draw.randint(0, 3)),
            "priors_count": str(draw.randint(0, 20)),
            "days_b_screening_arrest": str(draw.randint(-30, 30)),
            "c_jail_in": "2013-08-13 06:00:00",
            "c_jail_out": f"2013-08-{draw.randint(14, 28)} 18:00:00",
            "c_charge_degree": draw.choice(["F", "M"]),
            "is_recid": draw.choice(["0", "1"]),
            "score_text": draw.choice(["Low", "Low", "Medium", "High"]),
            "two_year_recid": draw.choice(["0", "1"]),
        } | changed

    return [row() for _ in range(rows)] + [
        row(days_b_screening_arrest="31"),
        row(days_b_screening_arrest="", c_jail_in="", c_jail_out=""),
        row(is_recid="-1"),
        row(c_charge_degree="O"),
        row(score_text="N/A"),
    ]


def write_compas(folder: Path, rows: int = 150, columns: Iterable[str] = compas.COLUMNS) -> Path:
    """The second of two columns with one name, and each column that is not needed, says SECRET."""
    order = list(columns)
    first = [name not in order[:i] for i, name in enumerate(order)]
    lines = [
        ",".join(row.get(name, "SECRET") if new else "SECRET" for name, new in zip(order, first, strict=True))
        for row in compas_rows(rows)
    ]
    return write_lines(folder / "compas" / "compas-scores-two-years.csv", [",".join(order), *lines])


def write_all(folder: Path) -> None:
    write_adult(folder)
    write_bank(folder)
    write_compas(folder)


def change_field(path: Path, line: int, field: int, value: str, separator: str = ",") -> None:
    lines = path.read_text().splitlines()
    fields = lines[line].split(separator)
    fields[field] = value
    lines[line] = separator.join(fields)
    path.write_text("\n".join(lines) + "\n")


def cut_short(path: Path, characters: int) -> None:
    path.write_text(path.read_text().rstrip()[:-characters])
