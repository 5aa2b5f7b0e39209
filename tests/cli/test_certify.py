"""`r2et certify --bracket`: both ends at each radius, with the threat and the attackers by name."""

import pytest
import torch

from r2et import models, save_model
from tests.test_cli import at_80_columns

QUICK = ("--data", "breast-cancer", "--limit", 4, "--radii", "0.05,0.5", "--budget", "fast", "--bracket", "--k", 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    made = tmp_path_factory.mktemp("certify") / "net"
    save_model(models.MLP(30, 2, activation="softplus"), made)
    return made


def test_both_ends_are_printed_at_80_columns(run, folder):
    found = run("certify", folder, *QUICK)
    at_80_columns(found.out)
    words = " ".join(found.out.split())
    assert "bracket of P@8, mean over 4 inputs, in percent, rounded outwards" in words
    assert "prediction kept: attackers must keep the prediction; what is proven holds even for" in words
    assert "attacked by WorstCase-2 (fast) with starts from the dual bound" in words
    assert "smallest attack found on" in words


def test_the_prediction_may_be_free(run, folder):
    content = run("certify", folder, *QUICK, "--free", "--json").json()
    bracket = content["bracket"]
    assert bracket["prediction"] == "free"
    assert bracket["threat"] == content["threat"]
    assert bracket["radii"] == [0.05, 0.5]
    for ends in bracket["mean"]:
        assert 0 <= ends["proven"] <= ends["attacked"] <= 1


def test_an_estimate_is_no_end_of_a_bracket(run, folder):
    content = run("certify", folder, *QUICK, "--method", "first-order", "--json").json()
    assert "bracket" not in content
    assert len(content["smallest_attack"]) == 4
