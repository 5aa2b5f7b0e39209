import numpy as np
import pandas as pd
import pytest
import torch

from r2et.data.base import Dataset, Split, tabular_dataset
from r2et.data.catalogue import Info, Request
from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain
from r2et.errors import DataError, InputError
from r2et.tables.declared import Category, Feature, Number
from r2et.tables.splits import split_rows

INFO = Info("toy", "a toy", "nobody", "none", rows=200, features=3, classes=2, k=1)
NAMES = ("age", "kind: a", "kind: b")


def request(seed: int = 0) -> Request:
    return Request(INFO, (), seed, None)


FEATURES: list[Feature] = [Number("age", "years"), Category("kind", "sort", {"x": "a", "y": "b"})]


def toy_table(rows: int = 200) -> tuple[pd.DataFrame, pd.Series]:
    generator = np.random.default_rng(0)
    kind = generator.integers(0, 2, rows)
    frame = pd.DataFrame({"years": generator.normal(40, 10, rows), "sort": np.where(kind, "x", "y")})
    return frame, pd.Series((np.arange(rows) % 5 == 0).astype(np.int64))


def toy(rows: int = 200) -> Dataset:
    frame, y = toy_table(rows)
    return tabular_dataset(request(), frame, FEATURES, y, ["no", "yes"])


def part(rows: int = 4, features: int = 3) -> Split:
    return Split(torch.rand(rows, features), torch.arange(rows) % 2)


def by_hand(**changed: object) -> Dataset:
    settings = {
        "name": "mine",
        "train": part(),
        "validation": part(),
        "test": part(),
        "feature_names": NAMES,
        "class_names": ("no", "yes"),
        "domain": Domain(0.0, 1.0),
        "k": 1,
    }
    return Dataset(**(settings | changed))  # type: ignore[arg-type]


class TestPipeline:
    def test_scales_numbers_on_train_and_leaves_the_rest(self) -> None:
        frame, labels = toy_table()
        data, y = toy(), labels.to_numpy()
        age = data.train.x[:, 0]
        assert age.mean().item() == pytest.approx(0, abs=1e-6)
        assert age.std(correction=0).item() == pytest.approx(1, abs=1e-6)
        train, _, test = split_rows(y, 0)
        raw = frame["years"].to_numpy()
        expected = (raw[test] - raw[train].mean()) / raw[train].std()
        np.testing.assert_allclose(data.test.x[:, 0].numpy(), expected, rtol=1e-5)
        np.testing.assert_array_equal(
            data.test.x[:, 1:].numpy(), np.stack([frame["sort"] == "x", frame["sort"] == "y"], axis=1)[test]
        )
        assert data.test.y.tolist() == y[test].tolist()

    def test_domain_is_the_range_of_train_and_the_one_hot_groups(self) -> None:
        data = toy()
        age = data.train.x[:, 0]
        assert torch.as_tensor(data.domain.lower).tolist() == pytest.approx([age.min().item(), 0, 0], rel=1e-6)
        assert torch.as_tensor(data.domain.upper).tolist() == pytest.approx([age.max().item(), 1, 1], rel=1e-6)
        assert data.domain.groups == ((1, 2),)

    def test_columns_are_those_of_the_table_with_the_frequencies_of_train(self) -> None:
        data = toy()
        assert data.columns is not None
        assert data.columns.features == ((0,), (1, 2))
        assert data.columns.kinds == ("number", "category")
        assert data.columns.frequencies[1] == pytest.approx(tuple(data.train.x[:, 1:].mean(0).tolist()))

    def test_types_and_texts(self) -> None:
        data = toy()
        assert (data.train.x.dtype, data.train.y.dtype) == (torch.float32, torch.int64)
        assert (data.name, data.k, data.feature_names) == ("toy", 1, NAMES)
        assert (data.description, data.citation, data.licence) == ("a toy", "nobody", "none")
        assert data.class_names == ("no", "yes")

    def test_a_constant_column_becomes_zero(self) -> None:
        frame, y = toy_table()
        data = tabular_dataset(request(), frame.assign(years=7), FEATURES, y, ("no", "yes"))
        assert data.test.x[:, 0].abs().max() == 0

    def test_too_few_rows(self) -> None:
        with pytest.raises(DataError, match=r"toy has too few rows .*4 of 'no', 2 of 'yes'"):
            toy(rows=6)

    def test_a_class_without_rows(self) -> None:
        frame, y = toy_table()
        with pytest.raises(DataError, match=r"toy has a class without rows .*0 of 'yes'"):
            tabular_dataset(request(), frame, FEATURES, y * 0, ("no", "yes"))


class TestByHand:
    def test_good(self) -> None:
        assert len(by_hand().train) == 4
        assert "4 rows of 3 features" in repr(by_hand())

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"test": part(features=2)}, r"shape \(2,\) in test, but \(3,\) in train"),
            ({"class_names": ("only",)}, r"labels of train go from 0 to 1, but the 1 class names"),
            ({"feature_names": ("a", "b")}, "2 feature names for 3 features"),
            ({"domain": Domain(frozen=[3])}, "names feature 3"),
            ({"k": 3}, "got k=3"),
            ({"inputs": 2}, r"inputs=2 does not fit rows of shape \(3,\)"),
            ({"inputs": 3}, r"inputs=3 does not fit"),
            ({"layout": ImageLayout((1, 2, 2), (0.0,), (1.0,))}, r"has 4 features, inputs have 3"),
        ],
    )
    def test_parts_must_fit(self, changed: dict[str, object], message: str) -> None:
        with pytest.raises(InputError, match=message):
            by_hand(**changed)

    def test_pairs_have_the_features_of_one_input(self) -> None:
        pairs = Split(torch.rand(4, 2, 3), torch.arange(4) % 2)
        made = by_hand(train=pairs, validation=pairs, test=pairs, inputs=2)
        assert len(made.feature_names) == 3
        with pytest.raises(InputError, match="3 feature names for 6 features"):
            by_hand(train=pairs, validation=pairs, test=pairs)

    def test_layouts(self) -> None:
        image = by_hand(layout=ImageLayout((3, 1, 1), (0.0,) * 3, (1.0,) * 3))
        assert (image.image_shape, image.region_names) == ((3, 1, 1), None)
        graph = by_hand(layout=GraphLayout(("a", "b", "c"), torch.zeros(3), torch.ones(3)))
        assert (graph.image_shape, graph.region_names) == (None, ("a", "b", "c"))
        assert (by_hand().image_shape, by_hand().region_names) == (None, None)

    def test_split_checks_its_tensors(self) -> None:
        with pytest.raises(InputError, match="5 labels for 4 rows"):
            Split(torch.rand(4, 3), torch.zeros(5, dtype=torch.int64))
        with pytest.raises(InputError, match="NaN"):
            Split(torch.full((4, 3), torch.nan), torch.zeros(4, dtype=torch.int64))
