"""Adult (UCI Census Income): does a person earn more than 50,000 dollars a year?"""

from r2et.data.base import Dataset, tabular_dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.sources import RemoteFile
from r2et.tables.declared import Category, Feature, Flag, Number, codes
from r2et.tables.files import read_texts

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)
SEX = {"Male": 1, "Female": 0}
RACE = {"White": 1, "Black": 0, "Asian-Pac-Islander": 0, "Amer-Indian-Eskimo": 0, "Other": 0}
# In the file's spelling. Puerto Rico, the outlying islands and "?" are not its "United-States".
ELSEWHERE = (
    "? Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France "
    "Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy "
    "Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal "
    "Puerto-Rico Scotland South Taiwan Thailand Trinadad&Tobago Vietnam Yugoslavia"
)
COUNTRY = {"United-States": 1} | dict.fromkeys(ELSEWHERE.split(), 0)
WORKCLASS = {
    "Private": "private",
    "Federal-gov": "government",
    "State-gov": "government",
    "Local-gov": "government",
    "Self-emp-inc": "self-employed",
    "Self-emp-not-inc": "self-employed",
    "Without-pay": "other",
    "Never-worked": "other",
    "?": "other",
}
MARITAL = {
    "Married-civ-spouse": "married",
    "Married-AF-spouse": "married",
    "Married-spouse-absent": "married",
    "Never-married": "never married",
    "Divorced": "divorced or separated",
    "Separated": "divorced or separated",
    "Widowed": "widowed",
}
OCCUPATION = {
    "Exec-managerial": "managerial",
    "Prof-specialty": "professional",
    "Tech-support": "professional",
    "Sales": "sales",
    "Adm-clerical": "clerical",
    "Craft-repair": "blue-collar",
    "Machine-op-inspct": "blue-collar",
    "Transport-moving": "blue-collar",
    "Handlers-cleaners": "blue-collar",
    "Farming-fishing": "blue-collar",
    "Other-service": "service",
    "Protective-serv": "service",
    "Priv-house-serv": "service",
    "Armed-Forces": "other",
    "?": "other",
}
RELATIONSHIP = {
    "Husband": "spouse",
    "Wife": "spouse",
    "Own-child": "own child",
    "Not-in-family": "not in family",
    "Other-relative": "other relative",
    "Unmarried": "unmarried",
}
# The labels of adult.test end in a full stop.
INCOME = {"<=50K": 0, "<=50K.": 0, ">50K": 1, ">50K.": 1}


def features() -> tuple[Feature, ...]:
    """The 28 features, in order."""
    import numpy as np

    return (
        Number("age", "age"),
        Number("education-num", "education-num"),
        Number("log1p capital-gain", "capital-gain", np.log1p),
        Number("log1p capital-loss", "capital-loss", np.log1p),
        Number("hours-per-week", "hours-per-week"),
        Flag("male", "sex", SEX),
        Flag("white", "race", RACE),
        Flag("born in the United States", "native-country", COUNTRY),
        Category("workclass", "workclass", WORKCLASS),
        Category("marital", "marital-status", MARITAL),
        Category("occupation", "occupation", OCCUPATION),
        Category("relationship", "relationship", RELATIONSHIP),
    )


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"


@register(
    Info(
        name="adult",
        description="Adult (UCI Census Income 1994): income above 50,000 dollars a year",
        citation="Becker, Kohavi. Adult. UCI Machine Learning Repository, 1996",
        licence="CC BY 4.0",
        rows=48_842,
        features=28,
        classes=2,
        kind="tabular",
        files=(
            RemoteFile(
                "adult.data",
                UCI + "adult.data",
                md5="5d7c39d7b8804f071cdd1f2a7c460872",
                sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            ),
            RemoteFile(
                "adult.test",
                UCI + "adult.test",
                md5="35238206dfdf7f1fe215bbb874adecdc",
                sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            ),
        ),
    )
)
def adult(request: Request) -> Dataset:
    """Both files together, then split: the published halves leave no validation set."""
    import pandas as pd

    frame = pd.concat(
        # adult.test opens with a line of comment
        [read_texts(path, COLUMNS, header=False, comment="|") for path in request.paths]
    )
    return tabular_dataset(request, frame, features(), codes(frame, "income", INCOME), ("<=50K", ">50K"))
