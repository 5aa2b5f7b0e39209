"""Saliency maps and magnitudes by rank: what is drawn is what was passed in."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from r2et.data.layouts import ImageLayout
from r2et.errors import InputError
from r2et.report import magnitude_by_rank, saliency_grid, saliency_pair

GREY = ImageLayout((1, 6, 7), mean=(0.4,), std=(0.3,))
COLOUR = ImageLayout((3, 6, 7), mean=(0.4, 0.5, 0.6), std=(0.3, 0.2, 0.1))


def scores(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def brute_top(values, k):
    """Pixels (row, column) of the k largest scores, ties to the smaller index."""
    flat = [float(v) for v in values.flatten()]
    best = sorted(range(len(flat)), key=lambda i: (-flat[i], i))[:k]
    return {(i // 7, i % 7) for i in best}


def marked(axis):
    """By kind, the pixels at the centres of the outlined squares; each must be marked once."""
    found = {}
    for collection in axis.collections:
        centres = [path.vertices[:4].mean(0) for path in collection.get_paths()]
        cells = [(round(y), round(x)) for x, y in centres]
        assert len(set(cells)) == len(cells)
        found[collection.get_gid()] = set(cells)
    return found


def maps(figure):
    """The axes with explanations, by (row, member, after)."""
    return {
        tuple(int(word) for word in axis.get_gid().split()[1:]): axis
        for axis in figure.axes
        if (axis.get_gid() or "").startswith("map")
    }


def images(figure):
    return [np.asarray(axis.images[0].get_array()) for axis in figure.axes if axis.get_gid() == "image"]


def percent(first, second, k):
    return f"P@{k} {100 * len(brute_top(first, k) & brute_top(second, k)) / k:.3g}%"


@pytest.mark.parametrize("shape", [(42,), (6, 7)])
@pytest.mark.parametrize("as_array", [False, True])
def test_the_marked_pixels_are_the_top_k(shape, as_array):
    before, after, k = scores(42), scores(42, seed=1), 9
    first, second = before.reshape(shape), after.reshape(shape)
    if as_array:
        first, second = first.numpy(), second.numpy()
    figure = saliency_pair(scores(1, 6, 7), GREY, first, second, k, title="SP")
    drawn = maps(figure)
    assert set(drawn) == {(0, 0, 0), (0, 0, 1)}
    top_before, top_after = brute_top(before, k), brute_top(after, k)
    assert 0 < len(top_before & top_after) < k
    assert marked(drawn[0, 0, 0]) == {"kept": top_before & top_after, "lost": top_before - top_after}
    assert marked(drawn[0, 0, 1]) == {"kept": top_before & top_after, "entered": top_after - top_before}
    assert drawn[0, 0, 1].get_title() == f"attacked: {percent(before, after, k)}"
    assert figure.axes[0].get_ylabel() == "SP"
    entries = [text.get_text() for text in figure.legends[0].get_texts()]
    assert entries == ["top 9 pixels of both", "of the original only", "of the attacked only"]


def test_ties_go_to_the_smaller_index_as_in_ranking():
    before, after = torch.zeros(42), torch.zeros(42)
    before[[3, 20, 21, 40]] = 1.0
    after[[40, 41]] = 1.0
    drawn = maps(saliency_pair(scores(1, 6, 7), GREY, before, after, 3))
    assert set().union(*marked(drawn[0, 0, 0]).values()) == brute_top(before, 3) == {(0, 3), (2, 6), (3, 0)}
    assert drawn[0, 0, 1].get_title().endswith(", tied")
    assert set().union(*marked(drawn[0, 0, 1]).values()) == brute_top(after, 3) == {(5, 5), (5, 6), (0, 0)}


def test_both_maps_share_one_scale_and_show_the_scores():
    before, after = scores(42), 5 * scores(42, seed=1)
    drawn = maps(saliency_pair(scores(1, 6, 7), GREY, before, after, 4))
    for when, values in ((0, before), (1, after)):
        painted = drawn[0, 0, when].images[0]
        assert painted.get_clim() == (0, 1)
        torch.testing.assert_close(
            torch.as_tensor(painted.get_array()), (values / after.max()).double().reshape(6, 7), atol=1e-6, rtol=0
        )
    signed = maps(saliency_pair(scores(1, 6, 7), GREY, before - 0.5, after, 4))
    assert {signed[0, 0, when].images[0].get_clim() for when in (0, 1)} == {(-1, 1)}


@pytest.mark.parametrize("layout", [GREY, COLOUR])
def test_images_are_shown_in_pixels(layout):
    pixels = scores(*layout.shape)
    attacked = (pixels + 0.1).clamp(max=1)
    figure = saliency_pair(
        layout.standardise(pixels), layout, scores(42), scores(42), 4, attacked=layout.standardise(attacked)
    )
    for shown, expected in zip(images(figure), (pixels, attacked), strict=True):
        wanted = expected[0] if layout is GREY else expected.permute(1, 2, 0)
        np.testing.assert_allclose(shown, wanted, atol=1e-6)
    assert [axis.get_title() for axis in figure.axes[:2]] == ["image", "attacked image"]


def test_a_grid_of_methods_on_one_image_and_of_samples():
    before, after = scores(3, 42), scores(3, 42, seed=1)
    methods = saliency_grid(scores(3, 6, 7), COLOUR, before, after, 5, titles=["A", "B", "C"])
    samples = saliency_grid(scores(3, 3, 6, 7), COLOUR, before, after, 5, titles=["A", "B", "C"])
    assert (len(images(methods)), len(images(samples))) == (1, 3)
    for figure in (methods, samples):
        drawn = maps(figure)
        for row in range(3):
            assert set().union(*marked(drawn[row, 0, 0]).values()) == brute_top(before[row], 5)
            assert drawn[row, 0, 1].get_title().endswith(percent(before[row], after[row], 5))
        assert [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()] == [
            "A",
            "B",
            "C",
            "score / largest",
        ]


@pytest.mark.parametrize("shared", [True, False])
def test_pairs_show_both_images_and_the_mean_precision(shared):
    before, after = scores(2, 2, 6, 7), scores(2, 2, 6, 7, seed=1)
    x = scores(2, 1, 6, 7) if shared else scores(2, 2, 1, 6, 7)
    figure = saliency_grid(x, GREY, before, after, 8, titles=["A", "B"], attacked=scores(2, 2, 1, 6, 7, seed=3))
    drawn = maps(figure)
    assert len(drawn) == 8
    labels = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel().startswith(("A", "B"))]
    for row, name in enumerate("AB"):
        shares = []
        for member in (0, 1):
            first, second = before[row, member], after[row, member]
            assert set().union(*marked(drawn[row, member, 1]).values()) == brute_top(second, 8)
            assert drawn[row, member, 1].get_title().endswith(percent(first, second, 8))
            shares.append(len(brute_top(first, 8) & brute_top(second, 8)) / 8)
        assert labels[row] == f"{name}\nmean P@8 {100 * sum(shares) / 2:.3g}%"
    assert len(images(figure)) == (2 if shared else 4) + 4


def test_a_large_image_keeps_marks_that_can_be_seen():
    layout = ImageLayout((1, 300, 400), mean=(0.0,), std=(1.0,))
    figure = saliency_pair(scores(1, 300, 400), layout, scores(300, 400), scores(300, 400, seed=1), 5)
    figure.draw_without_rendering()
    axis = maps(figure)[0, 0, 0]
    side = np.ptp(axis.transData.transform(axis.collections[1].get_paths()[0].vertices[:4])[:, 0])
    assert 72 * side / figure.dpi > 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"before": torch.full((42,), float("nan"))}, r"before of shape \(42,\) has 42 values that are NaN"),
        ({"before": torch.rand(41), "after": torch.rand(41)}, r"shape \(41,\) do.*\(42,\) or \(6, 7\)"),
        ({"after": torch.rand(6, 7)}, r"\(42,\), but after \(6, 7\)"),
        ({"before": torch.rand(3, 42), "after": torch.rand(3, 42)}, r"\(3, 42\) are not one map.*saliency_grid"),
        ({"image": torch.rand(1, 7, 6)}, r"image of shape \(1, 7, 6\) does not fit: \(1, 6, 7\)"),
        ({"attacked": torch.rand(3, 6, 7)}, r"attacked of shape \(3, 6, 7\)"),
        ({"k": 42}, r"less than the 42 features.*k=42.*\(42,\)"),
        ({"k": 2.5}, "whole number"),
        ({"before": "text"}, "before must be a tensor or an array, got str"),
        ({"image": torch.rand(0)}, r"image of shape \(0,\) has no values"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    given = {"image": torch.rand(1, 6, 7), "layout": GREY, "before": scores(42), "after": scores(42), "k": 3}
    with pytest.raises(InputError, match=message):
        saliency_pair(**{**given, **change})


def test_more_that_does_not_fit():
    with pytest.raises(InputError, match=r"abs-sum"):
        saliency_pair(scores(3, 6, 7), COLOUR, scores(126), scores(126), 3)
    with pytest.raises(InputError, match="1 titles for 2 rows"):
        saliency_grid(scores(1, 6, 7), GREY, scores(2, 42), scores(2, 42), 3, titles=["A"])
    one = scores(1, 6, 7)
    with pytest.raises(InputError, match=r"\(2, 3\) maps of \(6, 7\) pixels"):
        saliency_grid(one, GREY, scores(2, 3, 42), scores(2, 3, 42), 3, titles=["A", "B"])
    with pytest.raises(InputError, match=r"images of shape \(3, 1, 6, 7\) do not fit: .*\(2, 1, 6, 7\)"):
        saliency_grid(scores(3, 1, 6, 7), GREY, scores(2, 42), scores(2, 42), 3, titles=["A", "B"])
    with pytest.raises(InputError, match="attacked holds 1 images for 2 rows"):
        saliency_grid(one, GREY, scores(2, 42), scores(2, 42), 3, titles=["A", "B"], attacked=one)


@pytest.mark.parametrize("rank_scale", ["log", "linear"])
def test_magnitudes_by_rank(rank_scale):
    single, pairs = scores(20, 30) - 0.5, scores(5, 2, 30)
    figure = magnitude_by_rank({"Vanilla": single, "SP": pairs.numpy()}, 6, rank_scale=rank_scale, title="mine")
    axis = figure.axes[0]
    assert (axis.get_yscale(), axis.get_xscale(), axis.get_title()) == ("log", rank_scale, "mine")
    curves = {line.get_label(): line for line in axis.lines if not line.get_label().startswith("_")}
    bands = {band.get_gid(): band for band in axis.collections}
    for name, values in (("Vanilla", single), ("SP", pairs.reshape(10, 30))):
        ordered = np.sort(np.abs(values.numpy().astype(float)), axis=1)[:, ::-1]
        np.testing.assert_allclose(curves[name].get_ydata(), ordered.mean(0))
        np.testing.assert_array_equal(curves[name].get_xdata(), np.arange(1, 31))
        corners = bands[f"band {name}"].get_paths()[0].vertices[:, 1]
        np.testing.assert_allclose(corners.max(), np.quantile(ordered[:, 0], 0.9))
    marks = [line for line in axis.lines if line.get_gid() == "k"]
    assert [set(line.get_xdata()) for line in marks] == [{6}]
    assert "k = 6" in [text.get_text() for text in axis.texts]


def test_zeros_do_not_stretch_the_axis():
    values = torch.cat([torch.ones(3, 10), torch.full((3, 10), 1e-30), torch.zeros(3, 10)], dim=1)
    low, high = magnitude_by_rank({"Vanilla": values}, 5).axes[0].get_ylim()
    assert low == pytest.approx(1e-5)
    assert high >= 1
    magnitude_by_rank({"Vanilla": torch.zeros(3, 10)}, 5).draw_without_rendering()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "scores is empty"),
        ({"a": torch.rand(3, 5), "b": torch.rand(3, 6)}, r"same n.*\(3, 5\).*\(3, 6\)"),
        ({"a": torch.rand(5)}, r"\(N, n\).*\(5,\)"),
        ({"a": torch.tensor([[1.0, float("inf"), 0.0]])}, r"scores\['a'\] of shape \(1, 3\) has 1 values"),
        ({"a": torch.rand(3, 2)}, "k=2"),
    ],
)
def test_magnitudes_that_do_not_fit(given, message):
    with pytest.raises(InputError, match=message):
        magnitude_by_rank(given, 2)


def test_rank_scale_is_checked():
    with pytest.raises(InputError, match="did you mean 'log'"):
        magnitude_by_rank({"a": torch.rand(3, 5)}, 2, rank_scale="logs")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"pip install r2et\[plots\]"):
        saliency_pair(scores(1, 6, 7), GREY, scores(42), scores(42), 3)


def test_drawing_touches_neither_pyplot_nor_files(tmp_path):
    code = (
        "import sys, torch, r2et.report as report\n"
        "assert 'matplotlib' not in sys.modules\n"
        "report.magnitude_by_rank({'a': torch.rand(3, 5)}, 2)\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True)
    assert not list(tmp_path.iterdir())
