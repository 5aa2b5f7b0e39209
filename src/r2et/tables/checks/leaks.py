"""Single columns that give the target away: no honest column tells it alone."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from r2et.tables.checks.profile import Profile, shown
from r2et.tables.checks.remarks import Remark

#: cross-validated AUC above which a column is said to give the target away
LEAK = 0.99
#: rows that are looked at, and of these the ones for cross-validation
ROWS, ROWS_IN_FOLDS = 20_000, 6_000
FOLDS = 5
#: of more classes the commonest ones are looked at
MOST_CLASSES = 20
#: the AUC on these very rows of a coarser model, below which no time is spent on the finer one
_PROMISING = 0.98
_BINS = 128
_LEAVES = 32

Numbers = NDArray[np.int64]


class LeakTest:
    """Looks whether one column alone tells the target, on a sample of the rows.

    Args:
        y: class numbers (N,).
        seed: of the sample and the folds.
    """

    def __init__(self, y: Numbers, seed: int = 0) -> None:
        self.seed = seed
        sizes = np.bincount(y)
        # a class of fewer rows than folds cannot be judged, and of very many a part will do
        judged = np.flatnonzero(sizes >= FOLDS)
        judged = judged[np.argsort(-sizes[judged], kind="stable")][:MOST_CLASSES]
        rows = np.flatnonzero(np.isin(y, judged))
        self.rows = rows[sample(y[rows], ROWS, seed)]
        self.y: Numbers = np.unique(y[self.rows], return_inverse=True)[1]

    def possible(self, columns: int) -> bool:
        """Whether perfect order could not be an accident among this many columns."""
        counts = np.bincount(self.y)
        if len(counts) < 2:
            return False
        largest = counts.max()
        ways = gammaln(len(self.y) + 1) - gammaln(largest + 1) - gammaln(len(self.y) - largest + 1)
        return bool(ways > np.log(1e6 * max(1, columns)))

    def auc(self, profile: Profile) -> float | None:
        """The cross-validated AUC of the column alone; None where it is not near the limit.

        With more than two classes it is the mean over the classes, each against the others.
        """
        codes = profile.codes[self.rows].astype(np.int64)
        if profile.numbers is None or not profile.numeric:
            bins, of_categories = codes + 1, True
        else:
            numbers = _apart_in_float32(profile.numbers[self.rows])
            bins, of_categories = _binned(numbers), False
        if _auc_of_bins(bins, self.y) < _PROMISING:
            return None
        scores = _of_categories if of_categories else _of_numbers
        auc = self._cross_validated(bins if of_categories else numbers, scores)
        return auc if of_categories else max(auc, self._in_order(numbers))

    def _in_order(self, numbers: NDArray[np.float64]) -> float:
        """The AUC of the number itself as a score of one of two classes: it learns nothing and needs no folds."""
        if self.y.max() > 1 or np.isnan(numbers).any():
            return 0.0
        return _macro_auc(np.stack([-numbers, numbers], 1) * _sign(numbers, self.y), self.y)

    def _cross_validated(self, x: NDArray[Any], fitted: Any) -> float:
        from sklearn.model_selection import StratifiedKFold

        some = sample(self.y, ROWS_IN_FOLDS, self.seed)
        x, y = x[some], self.y[some]
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=self.seed)
        classes = int(y.max()) + 1
        aucs = []
        for train, test in folds.split(x, y):
            scores = fitted(x[train], y[train], x[test], classes)
            aucs.append(_macro_auc(scores, y[test]))
        return float(np.mean(aucs))


def leak(profile: Profile, test: LeakTest, target: str, classes: list[Any], y: Numbers) -> Remark | None:
    """What to say of a column that gives the target away; None of any other."""
    auc = test.auc(profile)
    if auc is None or not auc > LEAK:
        return None
    return Remark(
        "leak",
        profile.name,
        f"predicts {target!r} alone with a cross-validated AUC of {auc:.3f}{_example(profile, classes, y)}",
        {"auc": round(auc, 4)},
    )


def leaks(
    test: LeakTest, profiles: list[Profile], target: str, classes: list[Any], y: Numbers
) -> Iterator[Remark]:
    """The columns that give the target away."""
    for profile in profiles:
        remark = leak(profile, test, target, classes, y)
        if remark is not None:
            yield remark


def sample(y: Numbers, most: int, seed: int) -> Numbers:
    """About this many rows, of each class the same share, but of rare ones up to 200: an AUC knows no shares.

    >>> y = np.array([0] * 900 + [1] * 90 + [2] * 10)
    >>> np.bincount(y[sample(y, 100, seed=0)]).tolist()
    [90, 16, 10]
    """
    if len(y) <= most:
        return np.arange(len(y))
    rng = np.random.default_rng(seed)
    labels, counts = np.unique(y, return_counts=True)
    least = min(200, most // (2 * len(labels)))
    parts = []
    for label, count in zip(labels, counts, strict=True):
        wanted = max(round(count * most / len(y)), min(least, count))
        parts.append(rng.permutation(np.flatnonzero(y == label))[:wanted])
    return np.sort(np.concatenate(parts))


def _example(profile: Profile, classes: list[Any], y: Numbers) -> str:
    """A value of a category, or a few of a number, that go with one class."""
    ((value, count),) = profile.commonest(1)
    labels = y[profile.codes == int(np.argmax(profile.counts))]
    counts = np.bincount(labels)
    if counts.max() < 0.99 * count or count < FOLDS:
        return ""
    always = "always" if counts.max() == count else "nearly always"
    return f"; where it is {shown(value)}, the target is {always} {shown(classes[int(counts.argmax())])}"


def _apart_in_float32(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers in the same order that float32 tells apart, as trees are computed in it: from 0 to 1, or ranks.

    From 0 to 1 is better, because a gap between two classes stays as wide as it is.
    """
    present = ~np.isnan(numbers)
    values, places = np.unique(numbers[present], return_inverse=True)
    scaled = np.full(len(numbers), np.nan)
    with np.errstate(all="ignore"):
        inside = (values - values[:1]) / (values[-1:] - values[:1])
    apart = np.isfinite(inside).all() and (np.diff(inside.astype(np.float32)) > 0).all()
    scaled[present] = (inside if apart else np.arange(len(values)))[places]
    return scaled


def _binned(numbers: NDArray[np.float64]) -> Numbers:
    """At most 128 bins of about as many rows each; missing values are one of their own."""
    present = ~np.isnan(numbers)
    if not present.any():
        return np.zeros(len(numbers), dtype=np.int64)
    edges = np.unique(np.quantile(numbers[present], np.linspace(0, 1, _BINS + 1), method="lower"))
    return np.where(present, np.searchsorted(edges, numbers, side="right"), 0)


def _auc_of_bins(bins: Numbers, y: Numbers) -> float:
    """The best AUC on these rows of any score that is constant in each bin, averaged over the classes."""
    classes = int(y.max()) + 1
    counts = np.bincount(bins * classes + y, minlength=(int(bins.max()) + 1) * classes)
    table = counts.reshape(-1, classes)
    sizes = table.sum(1)
    aucs = []
    for hits in table.T:
        order = np.argsort(hits / np.maximum(sizes, 1), kind="stable")
        mine, others = hits[order], (sizes - hits)[order]
        below = np.cumsum(others) - others / 2
        aucs.append(float(mine @ below) / float(mine.sum() * others.sum()))
    return float(np.mean(aucs))


def _sign(numbers: NDArray[np.float64], y: Numbers) -> float:
    """1 if the numbers of class 1 are larger, else -1."""
    return 1.0 if numbers[y == 1].mean() >= numbers[y == 0].mean() else -1.0


def _macro_auc(scores: NDArray[np.float64], y: Numbers) -> float:
    """The AUC of each class against the others, averaged, of scores (M, classes); ties count half."""
    from scipy.stats import rankdata

    counts = np.bincount(y, minlength=scores.shape[1])
    ranks = rankdata(scores, axis=0)[np.arange(len(y)), y]
    sums = np.bincount(y, ranks, minlength=len(counts))
    above = sums - counts * (counts + 1) / 2
    return float((above / (counts * (len(y) - counts))).mean())


def _of_numbers(x: NDArray[np.float64], y: Numbers, new: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Shares of the classes by a small decision tree (M, classes)."""
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_leaf_nodes=_LEAVES, min_samples_leaf=2, random_state=0)
    shares: NDArray[np.float64] = tree.fit(x[:, None], y).predict_proba(new[:, None])
    return shares


def _of_categories(x: Numbers, y: Numbers, new: Numbers, classes: int) -> NDArray[np.float64]:
    """Shares of the classes in each category, drawn towards those of all rows (M, classes)."""
    counts = np.zeros((int(max(x.max(), new.max())) + 1, classes))
    np.add.at(counts, (x, y), 1)
    counts += np.bincount(y, minlength=classes) / len(y)
    shares: NDArray[np.float64] = counts / counts.sum(1, keepdims=True)
    return shares[new]
