from dataclasses import fields, replace

import pytest
from torch import nn

import r2et
from r2et import audit
from r2et.auditing import AuditSettings
from r2et.numerics.rounding import one_digit, percent
from tests.auditing.toys import RADII, X, Y, strict_json
from tests.models_with_answers import linear, normal


def test_the_verdict_counts_the_worst_attack(report):
    frame = report.to_frame()
    worst = frame.loc[frame["displaced"].idxmax()]
    text = " ".join(report.verdict().split())
    assert f"norm at most {worst['radius']:g}" in text
    assert f"for {percent(worst['changed'])} of the inputs" in text
    assert f"{worst['displaced']:.1f} of 2 on average ({worst['attack']})" in text


def test_a_frame_has_a_row_for_each_attack_and_radius(report):
    frame = report.to_frame()
    assert frame["attack"].tolist() == ["NoiseAttack", "ERAttack", "MSEAttack", "WorstCase"] * 2
    assert frame["radius"].tolist() == [0.5] * 4 + [2.0] * 4
    assert list(frame.columns) == [
        "attack",
        "radius",
        "precision",
        "displaced",
        "changed",
        "sensitivity",
        "distance",
    ]


def test_a_dict_is_json_and_holds_everything(report):
    found = report.to_dict()
    assert strict_json(found) == found
    assert found["attacks"] == report.to_frame().to_dict("records")
    assert found["thickness"]["values"] == report.thickness.tolist()
    assert found["thickness"]["minimum"] == float(report.thickness.min())
    assert found["thickness"]["mean"] == pytest.approx(float(report.thickness.mean()))
    assert found["verdict"] == report.verdict()
    assert found["settings"]["radii"] == list(RADII)
    assert found["settings"]["steps"] == 30
    assert found["settings"]["seed"] == 4


def test_a_summary_shows_every_attack(report):
    lines = report.summary().splitlines()
    assert " ".join(report.summary().split()).startswith(report.verdict())
    for row in report.attacks:
        (line,) = [line for line in lines if line.split()[:2] == [row.attack, f"{row.radius:g}"]]
        assert one_digit(row.precision) in line
        assert f"{row.displaced:.2f}" in line
        assert f"{one_digit(row.changed)}%" in line
    assert any("24 inputs, 6 features, k = 2" in line for line in lines)
    assert f"accuracy {report.accuracy:.4f}" in report.summary()


def test_a_summary_fits_80_columns(report):
    stable = audit(linear(), X, Y, k=2, radii=RADII, budget="fast", steps=2)
    many = normal(100, 30)
    wide = audit(
        nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 2)).double(),
        many,
        (many[:, 0] > 0).long(),
        k=12,
        radii=(0.125, 12.25),
        budget="fast",
        steps=2,
    )
    lines = [line for found in (report, stable, wide) for line in found.summary().splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if len(line) > 80] == []


def test_settings_are_typed_and_plain_in_json(report):
    settings = report.settings
    assert (settings.radii, settings.steps, settings.budget, settings.seed) == (RADII, 30, "fast", 4)
    assert settings.explainer == repr(r2et.explainers.Gradient())
    assert len(settings.attacks) == 4
    assert settings.attacks[-1].startswith("WorstCase(")
    assert strict_json(settings.to_dict()) == settings.to_dict()
    assert set(settings.to_dict()) == {entry.name for entry in fields(AuditSettings)}
    assert all(name.isidentifier() for name in settings.to_dict()), "no key is a sentence"


def test_the_curve_of_an_attack_and_the_worst_of_all(report):
    worst = [row for row in report.attacks if row.attack == "WorstCase"]
    assert report.curve("WorstCase") == [(row.radius, row.precision) for row in worst]
    assert report.worst.displaced == max(row.displaced for row in report.attacks)
    for radius, precision in report.curve("WorstCase"):
        assert report.certified_precision(radius) <= precision
    assert replace(report, certificate=None).certified_precision(0.5) is None
