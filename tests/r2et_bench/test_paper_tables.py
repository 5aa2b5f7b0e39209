"""Tables: means, marks and verdicts checked against numbers made by hand and against scipy."""

import csv
import io
import json

import pytest
from scipy import stats

from r2et.errors import InputError
from r2et_bench.formats import FORMATS, render
from r2et_bench.honest import accurate, judge
from r2et_bench.paper import paper_values
from r2et_bench.paper_tables import LAYOUTS, NUMBERS, make_table, paired_p_value
from r2et_bench.records import Store
from r2et_bench.results import load_results


def record(data, method, seed, auc, er, worst, passed=True, validation=0.9, threshold=0.89):
    return {
        "kind": "cell",
        "cell": {"data": data, "method": method, "settings": {}, "seed": seed, "retrained": False},
        "training": {
            "validation auc": validation,
            "passed": passed,
            "threshold": None if method in ("vanilla", "linear") else threshold,
            "epochs": 10,
        },
        "studies": {
            "prediction": {"settings": {}, "values": {"auc": auc}},
            "attacks": {"settings": {}, "values": {"ERAttack": er, "MSEAttack": er}},
            "worst": {"settings": {}, "values": {"precision": worst, "recipe": "WorstCase-1"}},
            "certified": {"settings": {}, "values": {"applies": False, "reason": "none. Else"}},
        },
        "timing": {"training": 10.0 * (1 + seed), "seconds an epoch": 1.0, "studies": {}},
    }


def filled(tmp_path, records):
    place = Store(tmp_path / "records", tmp_path / "work")
    entries = []
    for number, content in enumerate(records):
        place.write("paper-tabular", f"cell-{number}", content)
        cell = content["cell"]
        entries.append({"name": f"cell-{number}", "data": cell["data"], "method": cell["method"], "role": "main"})
    place.write("paper-tabular", "index", {"kind": "index", "plan": "paper-tabular", "cells": entries})
    return place


def rows(**methods):
    return [
        record("adult", method.replace("_", "-"), seed, *values)
        for method, seeds in methods.items()
        for seed, values in enumerate(seeds)
    ]


def test_means_deviations_and_the_papers_values(tmp_path):
    place = filled(tmp_path, rows(vanilla=[(0.91, 0.7, 0.2), (0.91, 0.8, 0.3)], r2et=[(0.9, 0.95, 0.9)] * 2))
    section = make_table("1", load_results(place)).sections[0]
    title, entries = section.rows[0]
    assert (title, section.columns) == ("Vanilla", ("test AUC", "ERAttack", "MSE attack"))
    assert entries[1].mean == pytest.approx(75.0)
    assert entries[1].std == pytest.approx(100 * stats.tstd([0.7, 0.8]))
    assert entries[1].paper == 87.6
    assert not entries[1].best
    assert section.rows[1][1][1].best


def test_the_dagger_is_a_paired_t_test():
    a, b = {0: 0.9, 1: 0.8, 2: 0.85, 3: 0.7}, {0: 0.8, 1: 0.75, 2: 0.84, 4: 0.0}
    expected = stats.ttest_rel([0.9, 0.8, 0.85], [0.8, 0.75, 0.84]).pvalue
    assert paired_p_value(a, b) == pytest.approx(expected)
    assert paired_p_value({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}) == 1.0


def test_a_dagger_only_where_the_difference_is_significant(tmp_path):
    clear = rows(
        vanilla=[(0.9, 0.70 + i / 1000, 0.2) for i in range(4)],
        r2et=[(0.9, 0.9 - i / 1000, 0.9) for i in range(4)],
    )
    found = make_table("1", load_results(filled(tmp_path / "a", clear))).sections[0].rows
    assert [entries[1].dagger for _, entries in found] == [False, True]
    unclear = rows(
        vanilla=[(0.9, v, 0.2) for v in (0.6, 0.95, 0.7)], r2et=[(0.9, v, 0.9) for v in (0.9, 0.6, 0.8)]
    )
    found = make_table("1", load_results(filled(tmp_path / "b", unclear))).sections[0].rows
    assert not any(entries[1].dagger for _, entries in found)


def test_a_row_below_the_threshold_cannot_win(tmp_path):
    content = rows(vanilla=[(0.9, 0.7, 0.2)], r2et=[(0.9, 0.8, 0.8)])
    content.append(record("adult", "r2et-sf", 0, 0.7, 1.0, 1.0, passed=False, validation=0.7))
    results = load_results(filled(tmp_path, content))
    section = make_table("1", results).sections[0]
    assert [(title, entries[1].best) for title, entries in section.rows][-1] == ("R2ET scale-free ✗", False)
    assert judge("adult", results).winner.method == "r2et"


def test_one_seed_below_the_threshold_is_judged_by_the_mean(tmp_path):
    content = rows(vanilla=[(0.9, 0.7, 0.2)])
    content += [record("adult", "r2et", seed, 0.9, 0.8, 0.8, validation=v) for seed, v in enumerate((0.92, 0.885))]
    assert accurate(load_results(filled(tmp_path, content)).row("adult", "r2et"))


@pytest.mark.parametrize(
    ("vanilla", "linear", "winner", "sentence"),
    [
        (0.910, 0.906, 0.908, "Linear is the answer"),
        (0.910, 0.890, 0.901, "It counts as better than Linear (0.8900): its AUC is at least 0.9000"),
        (0.910, 0.890, 0.899, "It is not better than Linear (0.8900)"),
    ],
)
def test_the_verdict_on_linear_models(tmp_path, vanilla, linear, winner, sentence):
    content = rows(vanilla=[(vanilla, 0.7, 0.2)], linear=[(linear, 1.0, 1.0)], r2et=[(winner, 0.9, 0.8)])
    verdict = judge("adult", load_results(filled(tmp_path, content)))
    assert verdict.winner.method == "r2et"
    assert sentence in verdict.text


def test_a_lighter_row_is_named_where_the_winner_is_not_better_than_linear(tmp_path):
    content = rows(vanilla=[(0.91, 0.7, 0.2)], linear=[(0.89, 1.0, 1.0)], r2et_sf=[(0.895, 1.0, 0.99)])
    place = filled(tmp_path, content)
    place.write("paper-tabular", "lighter", record("adult", "r2et-sf", 0, 0.905, 0.9, 0.95))
    index = place.read("paper-tabular", "index")
    index["cells"].append({"name": "lighter", "data": "adult", "method": "r2et-sf", "role": "lighter"})
    place.write("paper-tabular", "index", index)
    results = load_results(place)
    verdict = judge("adult", results)
    assert (verdict.winner.title, verdict.beats_linear) == ("R2ET scale-free", False)
    assert verdict.above_linear.title == "R2ET scale-free, lighter"
    assert "The most stable row that is: R2ET scale-free, lighter, P@k 95.0 at 0.9050" in verdict.text
    assert [title for title, _ in make_table("honest", results).sections[0].rows][-1] == "R2ET scale-free, lighter"
    assert len(make_table("1", results).sections[0].rows) == 2


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("number", NUMBERS)
def test_every_table_has_every_format(tmp_path, number, form):
    place = filled(
        tmp_path, rows(vanilla=[(0.9, 0.7, 0.2)], r2et=[(0.9, 0.8, 0.8)] * 2, linear=[(0.88, 1.0, 1.0)])
    )
    text = render(make_table(number, load_results(place)), form)
    assert "R2ET" in text
    assert ("Vanilla" in text) == (number != "3")
    assert ("Linear" in text) == (number == "honest")


def test_the_formats_agree(tmp_path):
    place = filled(tmp_path, rows(vanilla=[(0.9, 0.7, 0.2)], r2et=[(0.9, 0.8123, 0.8)] * 2))
    table = make_table("1", load_results(place))
    lines = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    value = next(line for line in lines if line["method"] == "R2ET" and line["column"] == "ERAttack")
    assert float(value["mean"]) == pytest.approx(81.23)
    assert value["paper"] == "92.1"
    assert "**81.2 ± 0.0**" in render(table, "markdown").replace("†", "")
    assert r"\textbf{81.2 $\pm$ 0.0" in render(table, "latex")
    assert "<strong>81.2 ± 0.0" in render(table, "html")


def test_latex_and_html_escape_what_they_print(tmp_path):
    bad = record("adult", "r2et", 0, 0.9, 0.8, 0.8)
    bad["studies"]["worst"] = {"settings": {}, "error": "E: <script>alert(1)</script> 100% _x_"}
    place = filled(tmp_path / "bad", [record("adult", "vanilla", 0, 0.9, 0.7, 0.2), bad])
    table = make_table("honest", load_results(place))
    assert "<script>" not in render(table, "html")
    assert "failed" in render(table, "latex")
    assert "<script>alert(1)</script> 100% _x_" in render(table, "csv")


def test_a_folder_without_records_says_what_to_run(tmp_path):
    with pytest.raises(InputError, match="compute some with `r2et bench run`"):
        load_results(Store(tmp_path, tmp_path))
    with pytest.raises(InputError, match=r"no records of 'mnist'.*r2et bench run --preset mnist"):
        load_results(Store(tmp_path, tmp_path), ["mnist"])


def test_a_foreign_file_is_not_taken_for_a_record(tmp_path):
    place = filled(tmp_path, rows(vanilla=[(0.9, 0.7, 0.2)]))
    (place.records / "paper-tabular" / "cell-0.json").write_text(json.dumps({"format": "else"}))
    with pytest.raises(InputError, match="is not a benchmark record"):
        load_results(place)


def test_the_papers_values_are_those_it_prints():
    values = paper_values()
    assert values["1"]["mnist-pairs"]["r2et"] == (85.7, 90.8)
    assert values["2"]["bank"]["sp"] == (95.4, 96.7, 99.9)
    assert values["5"]["abide"]["r2et"] == (71.6, 0.9731)
    assert values["6"]["abide"]["vanilla"] == (0.7663, 0.7729, 0.7663, 0.7659)
    assert values["7"]["compas"]["r2et-mm"] == (89.0, 89.0, 82.1)
    assert values["8"]["bank"]["exact-h"] == (81.9, None)
    assert values["9"]["mnist-pairs"]["r2et"] == (0.18, 0.26, 0.23)
    assert set(values) == set(LAYOUTS) - {"3"}
