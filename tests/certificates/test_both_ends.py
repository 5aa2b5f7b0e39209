"""What a bracket says, and that it never says what an attack contradicts."""

import json
import math
from dataclasses import replace

import pytest
import torch

from r2et.certificates import Bracket, Certificate
from r2et.certificates.both_ends import Ends, check_agreement, join_brackets, outwards
from r2et.errors import ContradictionError, InputError

RADII = (0.1, 0.5)


def made(proven=((1.0, 0.5), (0.5, 0.0)), attacked=((1.0, 1.0), (0.5, 0.5)), **changes) -> Bracket:
    """Two inputs, two features, two radii."""
    limits = torch.tensor([[0.3, 0.7], [0.1, 0.4]], dtype=torch.float64)[: len(proven)]
    settings = {
        "radii": RADII,
        "proven": torch.tensor(proven),
        "attacked": torch.tensor(attacked),
        "distance": torch.zeros(len(proven), 2),
        "certificate": Certificate(limits, "deterministic", "the gradient", methods=("dual",)),
        "attack": "WorstCase-2 (standard)",
        "threat": "paper",
        "prediction": "kept",
    }
    return Bracket(**(settings | changes))


def test_widths_and_means():
    both = made()
    assert both.width.tolist() == [[0.0, 0.5], [0.0, 0.5]]
    assert both.mean() == (Ends(0.1, 0.75, 0.75), Ends(0.5, 0.25, 0.75))
    assert len(both) == both.k == 2


@pytest.mark.parametrize("place", [(0, 0), (1, 1)])
def test_an_attack_below_the_proof_is_an_error(place):
    attacked = torch.tensor([[1.0, 1.0], [0.5, 0.5]])
    proven = attacked.clone()
    attacked[place] -= 0.5
    with pytest.raises(
        ContradictionError, match=rf"input {place[0]} stay at radius {RADII[place[1]]:g}.*not sound"
    ):
        made(proven.tolist(), attacked.tolist())


@pytest.mark.parametrize("end", ["proven", "attacked"])
def test_what_is_not_a_number_is_an_error(end):
    with pytest.raises(ContradictionError):
        made(**{end: ((math.nan, 0.5), (0.5, 0.0))})


def test_rounding_is_no_contradiction():
    check_agreement(torch.tensor([[1 / 3 + 1e-16]]), torch.tensor([[1 - 2 / 3]]), [0.1])


@pytest.mark.parametrize(
    ("proven", "attacked", "shown"),
    [
        (1.0, 1.0, ("100.0", "100.0")),
        (0.9996, 0.9999, ("99.9", "<100")),
        (0.996, 0.996, ("99.6", "99.6")),
        (0.0, 1e-5, ("0.0", "0.1")),
        (0.3, 0.1 + 0.2, ("30.0", "30.0")),
    ],
)
def test_ends_are_rounded_outwards(proven, attacked, shown):
    assert outwards(Ends(0.1, proven, attacked)) == shown


def test_it_reads_well_at_80_columns():
    text = repr(made())
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for part in (
        "bracket of P@2, mean over 2 inputs, in percent, rounded outwards",
        "0.1 75.0 75.0 0.0",
        "0.5 25.0 75.0 50.0",
        "threat paper: every number that the model sees moves",
        "prediction kept: attackers must keep the prediction; what is proven holds even for attackers who",
        "proven (dual) about the gradient",
        "attacked by WorstCase-2 (standard); both ends are about the model in float64",
    ):
        assert part in words
    assert "prediction free: attackers may change" in " ".join(repr(made(prediction="free")).split())


def test_frames_and_json_hold_every_cell():
    both = made()
    frame = both.to_frame()
    assert frame[["row", "radius"]].values.tolist() == [[0, 0.1], [0, 0.5], [1, 0.1], [1, 0.5]]
    assert frame["width"].tolist() == both.width.flatten().tolist()
    assert (frame.attrs["threat"], frame.attrs["prediction"]) == ("paper", "kept")
    content = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    assert content["proven"] == both.proven.tolist()
    assert content["mean"][1] == {"radius": 0.5, "proven": 0.25, "attacked": 0.75}
    assert content["precision"] == "float64"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"radii": (0.5, 0.1)}, "must rise"),
        ({"prediction": "lost"}, "prediction='lost'"),
        ({"distance": torch.zeros(2, 3)}, r"distance must be a tensor of shape \(2, 2\)"),
    ],
)
def test_what_is_no_bracket(changes, match):
    with pytest.raises(InputError, match=match):
        made(**changes)


def test_parts_are_joined_row_by_row():
    whole, one = made(), made(((1.0, 1.0),), ((1.0, 1.0),))
    limits = torch.cat([whole.certificate.limits, one.certificate.limits])
    joined = join_brackets([whole, one], replace(whole.certificate, limits=limits))
    assert joined.proven.tolist() == [[1.0, 0.5], [0.5, 0.0], [1.0, 1.0]]
