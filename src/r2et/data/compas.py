"""COMPAS (ProPublica): the risk score that a person under arrest was given, or what happened afterwards."""

from typing import TYPE_CHECKING

from r2et.data.base import Dataset, tabular_dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.sources import RemoteFile
from r2et.errors import DataError
from r2et.tables.declared import Category, Feature, Flag, Number, codes, numbers
from r2et.tables.files import read_texts

if TYPE_CHECKING:
    import pandas as pd

# The public file also holds names, birth dates and case numbers of real people: they are never read.
COLUMNS = (
    "sex",
    "age",
    "age_cat",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "days_b_screening_arrest",
    "c_jail_in",
    "c_jail_out",
    "c_charge_degree",
    "is_recid",
    "score_text",
    "two_year_recid",
)
SEX = {"Male": 1, "Female": 0}
CHARGE = {"F": 1, "M": 0}
AGE = {"Less than 25": 1, "25 - 45": 0, "Greater than 45": 0}
RACE = {name: name for name in ("African-American", "Asian", "Caucasian", "Hispanic", "Native American", "Other")}
FEATURES: tuple[Feature, ...] = (
    Number("age", "age"),
    Number("priors", "priors_count"),
    Number("juvenile felonies", "juv_fel_count"),
    Number("juvenile misdemeanours", "juv_misd_count"),
    Number("other juvenile counts", "juv_other_count"),
    Number("days between screening and arrest", "days_b_screening_arrest"),
    Number("days in jail", "days in jail"),
    Flag("male", "sex", SEX),
    Flag("felony charge", "c_charge_degree", CHARGE),
    Flag("under 25", "age_cat", AGE),
    Category("race", "race", RACE),
)
SCORE = {"Low": 0, "Medium": 1, "High": 1}
RECIDIVISM = {"0": 0, "1": 1}
# Whether a row passes the usual filter, by the values of one column.
KEEP = {
    "c_charge_degree": {"F": True, "M": True, "O": False},  # O: ordinary traffic offences, no jail time
    "is_recid": {"0": True, "1": True, "-1": False},  # -1: no COMPAS case was found
    "score_text": {"Low": True, "Medium": True, "High": True, "N/A": False},
}


@register(
    Info(
        name="compas",
        description="COMPAS (ProPublica, Broward County 2013-2014): a risk score other than Low, "
        "or recidivism within two years",
        citation="Angwin, Larson, Mattu, Kirchner. Machine Bias. ProPublica, 2016",
        licence="none stated",
        rows=6172,
        features=16,
        classes=2,
        kind="tabular",
        files=(
            RemoteFile(
                "compas-scores-two-years.csv",
                "https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-two-years.csv",
                md5="9165d40c400bba93a8cffece2b74622b",
                sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
            ),
        ),
        targets=("score", "two_year_recid"),
    )
)
def compas(request: Request) -> Dataset:
    """The rows of ProPublica's own analysis, with either target."""
    frame = usual_filter(read_texts(request.paths[0], COLUMNS))
    frame = frame.assign(**{"days in jail": days_in_jail(frame)})
    if request.target == "score":
        y, class_names = codes(frame, "score_text", SCORE), ("low", "medium or high")
    else:
        y, class_names = codes(frame, "two_year_recid", RECIDIVISM), ("no new crime", "new crime in 2 years")
    return tabular_dataset(request, frame, FEATURES, y, class_names)


def usual_filter(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Drop the rows whose charge is not the one that led to the screening, as ProPublica did."""
    # comparison with NaN is false: without the day of arrest a row cannot pass
    keep = numbers(frame, "days_b_screening_arrest", blank=True).abs() <= 30
    for column, values in KEEP.items():
        keep &= codes(frame, column, values).astype(bool)
    if not keep.any():
        raise DataError(f"{frame.index[0].removeprefix('row 1 of ')} has no row that passes the usual filter")
    return frame[keep]


def days_in_jail(frame: "pd.DataFrame") -> "pd.Series[float]":
    """From booking to release, in days; NaN where either is not a time.

    In 183 of the 6,172 rows the release stands up to half a day before the booking: they count as 0.
    """
    import pandas as pd

    start, end = (
        pd.to_datetime(frame[column], format="%Y-%m-%d %H:%M:%S", errors="coerce")
        for column in ("c_jail_in", "c_jail_out")
    )
    return ((end - start).dt.total_seconds() / 86_400).clip(lower=0.0)
