"""What is refused as lists, classes and P@k."""

import pytest
import torch

from r2et.errors import InputError
from r2et.individuality import Individuality

LISTS = torch.tensor([[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("lists", "options", "words"),
    [
        ([[0, 1]], {"features": 4}, "tensor"),
        (LISTS.double(), {"features": 4}, "whole numbers"),
        (LISTS, {}, "features=None"),
        (LISTS, {"features": 3}, "from 0 to 2, or -1 for none, got 0 to 3"),
        (LISTS - 2, {"features": 4}, "got -2"),
        (torch.tensor([[0, 0]]), {"features": 4}, "twice"),
        (torch.ones(2, 3, dtype=torch.bool), {"features": 4}, "features=4"),
        (LISTS, {"features": 4, "classes": torch.zeros(3).long()}, "classes"),
        (LISTS, {"features": 4, "classes": torch.zeros(2)}, "classes"),
        (LISTS, {"features": 4, "signed": True}, "hand over classes"),
        (LISTS, {"features": 4, "signed": "yes"}, "signed"),
        (LISTS.to_sparse(), {"features": 4}, r"lists must be a dense tensor, got torch.sparse_coo"),
        (LISTS, {"features": 4, "classes": torch.ones(2).long().to_sparse()}, "classes must be a dense"),
        (LISTS, {"features": 4, "precision": torch.ones(1, 2).to_sparse()}, "precision must be a dense"),
        (LISTS, {"features": 4, "precision": torch.ones(1, 2, dtype=torch.complex64)}, "real .*complex64"),
        (LISTS, {"features": 4, "precision": torch.ones(1, 2, dtype=torch.bool)}, "real .*bool"),
        (LISTS, {"features": 4, "precision": torch.ones(2)}, "precision"),
        (LISTS, {"features": 4, "precision": torch.full((1, 2), 1.5)}, "between 0 and 1"),
        (LISTS, {"features": 4, "precision": torch.full((1, 2), torch.nan)}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_counted_is_refused(lists, options, words):
    with pytest.raises(InputError, match=words):
        Individuality.of(lists, **options)


def test_a_mask_of_movable_features_has_their_number():
    with pytest.raises(InputError, match=r"\(4,\)"):
        Individuality.of(LISTS, 4).movable_share(torch.ones(3, dtype=torch.bool))
