"""Data sets that ship with scikit-learn: they need no network and no files."""

from r2et.data.base import Dataset, tabular_dataset
from r2et.data.catalogue import Info, Request, register
from r2et.tables.declared import Number, Share


@register(
    Info(
        name="breast-cancer",
        description="Breast Cancer Wisconsin (Diagnostic): cell nuclei measured in images of tumours",
        citation="Wolberg, Mangasarian, Street, Street. UCI Machine Learning Repository, 1995",
        licence="CC BY 4.0",
        rows=569,
        features=30,
        classes=2,
        kind="tabular",
    )
)
def breast_cancer(request: Request) -> Dataset:
    """30 measurements, standardised; malignant (0) or benign (1)."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer(as_frame=True)
    features = [Number(name, name) for name in bunch.data]
    return tabular_dataset(request, bunch.data, features, bunch.target, tuple(map(str, bunch.target_names)))


@register(
    Info(
        name="digits",
        description="Optical recognition of handwritten digits, 8 x 8 grey values",
        citation="Alpaydin, Kaynak. UCI Machine Learning Repository, 1998",
        licence="CC BY 4.0",
        rows=1797,
        features=64,
        classes=10,
        kind="tabular",
    )
)
def digits(request: Request) -> Dataset:
    """64 pixels, row by row, scaled from 0..16 to [0, 1] and not standardised: a pixel has natural bounds."""
    from sklearn.datasets import load_digits

    bunch = load_digits(as_frame=True)
    features = [Share(f"pixel {row},{column}", f"pixel_{row}_{column}") for row in range(8) for column in range(8)]
    return tabular_dataset(request, bunch.data / 16, features, bunch.target, tuple(map(str, bunch.target_names)))
