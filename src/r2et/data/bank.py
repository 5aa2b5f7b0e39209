"""Bank Marketing (UCI): does a client of a Portuguese bank subscribe to a term deposit after a call?"""

from typing import TYPE_CHECKING

from r2et.data.base import Dataset, tabular_dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.sources import RemoteFile
from r2et.tables.declared import Category, Feature, Flag, Number, codes
from r2et.tables.files import read_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

YES_NO = {"yes": 1, "no": 0}
CONTACT = {"cellular": 1, "telephone": 0, "unknown": 0}
OUTCOME = {"success": 1, "failure": 0, "other": 0, "unknown": 0}
MARITAL = {"married": "married", "single": "single", "divorced": "divorced"}
EDUCATION = {"primary": "primary", "secondary": "secondary", "tertiary": "tertiary", "unknown": "unknown"}


def never_called(days: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """-1 says that the client was not called before; as a number of days it would be nonsense."""
    import numpy as np

    return np.where(days == -1, 0.0, days)


# "duration" is known only once the call is over and gives the label away, so it is not even read.
FEATURES: tuple[Feature, ...] = (
    Number("age", "age"),
    Number("balance", "balance"),
    Number("day", "day"),
    Number("campaign", "campaign"),
    Number("pdays", "pdays", never_called),
    Number("previous", "previous"),
    Flag("default", "default", YES_NO),
    Flag("housing", "housing", YES_NO),
    Flag("loan", "loan", YES_NO),
    Flag("cellular contact", "contact", CONTACT),
    Flag("previous outcome success", "poutcome", OUTCOME),
    Category("marital", "marital", MARITAL),
    Category("education", "education", EDUCATION),
)


@register(
    Info(
        name="bank",
        description="Bank Marketing (UCI): subscription to a term deposit after a telephone campaign",
        citation="Moro, Cortez, Rita. A data-driven approach to predict the success of bank telemarketing. "
        "Decision Support Systems 62, 2014",
        licence="CC BY 4.0",
        rows=45_211,
        features=18,
        classes=2,
        kind="tabular",
        files=(
            RemoteFile(
                "bank-full.csv",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank.zip",
                md5="e6b0ca77f3f200ec5428e04dd104da53",
                sha256="d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
                zipped=True,
            ),
        ),
    )
)
def bank(request: Request) -> Dataset:
    """The full file of the original study."""
    columns = [feature.column for feature in FEATURES]
    frame = read_texts(request.paths[0], [*columns, "y"], separator=";")
    return tabular_dataset(request, frame, FEATURES, codes(frame, "y", YES_NO), ("no", "yes"))
