import torch

from r2et import data


def test_breast_cancer() -> None:
    made = data.load("breast-cancer")
    assert [len(split) for split in (made.train, made.validation, made.test)] == [398, 85, 86]
    assert made.feature_names[0] == "mean radius"
    assert made.class_names == ("malignant", "benign")
    assert made.domain.groups == ()


def test_digits_are_pixels_between_0_and_1() -> None:
    made = data.load("digits")
    assert [len(split) for split in (made.train, made.validation, made.test)] == [1257, 270, 270]
    assert made.class_names == tuple("0123456789")
    assert (made.feature_names[0], made.feature_names[-1]) == ("pixel 0,0", "pixel 7,7")
    every = torch.cat([made.train.x, made.validation.x, made.test.x])
    assert (every.min(), every.max()) == (0, 1)
    assert torch.equal(every * 16, (every * 16).round())
    assert torch.equal(torch.as_tensor(made.domain.lower), torch.zeros(64))
    assert torch.equal(torch.as_tensor(made.domain.upper), torch.ones(64))
