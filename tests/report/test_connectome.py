"""Matrices and circles of edges: the marked edges are the top-k, and each is of the right kind."""

import itertools
import math

import numpy as np
import pytest
import torch

from r2et.data.layouts import GraphLayout
from r2et.errors import InputError
from r2et.report import connectome_circle, connectome_matrix, lobes

NAMES = ("Precentral_L", "Precentral_R", "Cuneus_L", "Cuneus_R", "Rectus_L", "Rectus_R", "Vermis_3")


def layout_of(regions):
    edges = len(regions) * (len(regions) - 1) // 2
    return GraphLayout(tuple(regions), torch.zeros(edges), torch.ones(edges))


def scores(n, seed=0):
    return torch.rand(n, generator=torch.Generator().manual_seed(seed))


def brute_kinds(before, after, k):
    """Edges by kind, numbered in the order of the pairs of regions."""
    tops = [
        set(sorted(range(len(values)), key=lambda i: (-float(values[i]), i))[:k]) for values in (before, after)
    ]
    return {"kept": tops[0] & tops[1], "lost": tops[0] - tops[1], "entered": tops[1] - tops[0]}


def outlined(axis):
    found = {}
    for collection in axis.collections:
        centres = [path.vertices[:4].mean(0) for path in collection.get_paths()]
        found[collection.get_gid()] = [(round(y), round(x)) for x, y in centres]
    return found


@pytest.mark.parametrize("k", [1, 6, 20])
def test_the_outlined_cells_are_the_top_k_edges(k):
    layout, before, after = layout_of(NAMES), scores(21), scores(21, seed=1)
    figure = connectome_matrix(before, after, layout, k, title="SP")
    shown = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    pairs = list(itertools.combinations(NAMES, 2))
    kinds = brute_kinds(before, after, k)
    for axis, parts in ((figure.axes[0], ("kept", "lost")), (figure.axes[1], ("kept", "entered"))):
        found = outlined(axis)
        assert set(found) == set(parts)
        for kind in parts:
            wanted = {frozenset(pairs[edge]) for edge in kinds[kind]}
            named = [frozenset(shown[i].replace(" ", "_") for i in cell) for cell in found[kind]]
            assert set(named) == wanted
            assert len(found[kind]) == len(set(found[kind])) == 2 * len(wanted)  # both triangles
    assert figure.axes[1].get_title() == f"attacked: P@{k} {100 * len(kinds['kept']) / k:.3g}%"
    assert figure.get_suptitle() == "SP"
    assert len(figure.legends[0].get_texts()) == 3


def test_the_matrix_shows_the_scores_in_groups():
    layout, before, after = layout_of(NAMES), scores(21), 3 * scores(21, seed=1)
    figure = connectome_matrix(before, after, layout, 4)
    shown = [text.get_text().replace(" ", "_") for text in figure.axes[0].get_yticklabels()]
    assert shown == [
        *("Precentral_L", "Precentral_R", "Rectus_L", "Rectus_R"),  # frontal
        *("Cuneus_L", "Cuneus_R"),
        "Vermis_3",
    ]
    edge = {frozenset(pair): i for i, pair in enumerate(itertools.combinations(NAMES, 2))}
    for axis, values in zip(figure.axes[:2], (before, after), strict=True):
        drawn = np.asarray(axis.images[0].get_array())
        for i, j in itertools.product(range(7), repeat=2):
            wanted = 0.0 if i == j else float(values[edge[frozenset((shown[i], shown[j]))]] / after.max())
            assert drawn[i, j] == pytest.approx(wanted, abs=1e-6)
    own = connectome_matrix(before, after, layout, 4, groups=["b", "a", "b", "a", "b", "a", "b"])
    order = [text.get_text() for text in own.axes[0].get_yticklabels()]
    assert order == [name.replace("_", " ") for name in (*NAMES[0::2], *NAMES[1::2])]


def test_many_regions_are_named_by_group():
    regions = [f"{word}_{i}_{side}" for word in ("DMN", "Visual", "Motor") for i in range(10) for side in "LR"]
    layout = layout_of(regions)
    figure = connectome_matrix(scores(layout.features), scores(layout.features, seed=1), layout, 30)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["DMN", "Visual", "Motor"]
    assert list(figure.axes[0].get_xticks()) == [9.5, 29.5, 49.5]
    strange = layout_of([f"{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(80)])
    figure = connectome_matrix(scores(3160), scores(3160, seed=1), strange, 30)
    assert len(figure.axes[0].get_xticks()) == 40


@pytest.mark.parametrize("k", [1, 6, 20])
def test_arcs_by_kind(k):
    layout, before, after = layout_of(NAMES), scores(21), scores(21, seed=1)
    figure = connectome_circle(before, after, layout, k, title="SP")
    axis = figure.axes[0]
    kinds = brute_kinds(before, after, k)
    found = {kind: set() for kind in kinds}
    spots = dict(zip(map(tuple, axis.collections[0].get_offsets().round(6)), NAMES, strict=True))
    pairs = list(itertools.combinations(NAMES, 2))
    for arc in axis.patches:
        kind, edge = arc.get_gid().split()
        found[kind].add(int(edge))
        start, _, end = arc.get_path().vertices
        assert {spots[tuple(start.round(6))], spots[tuple(end.round(6))]} == set(pairs[int(edge)])
    assert found == kinds
    assert len(axis.patches) == sum(map(len, kinds.values()))
    colours = {(arc.get_gid().split()[0], arc.get_edgecolor()[:3]) for arc in axis.patches}
    assert len(colours) == len({kind for kind, edges in kinds.items() if edges})
    share = f"{100 * len(kinds['kept']) / k:.3g}%"
    assert axis.get_title() == f"SP · P@{k} {share}"
    counts = [text.get_text().rsplit("(")[1] for text in figure.legends[0].get_texts()]
    assert counts == [f"{len(kinds[kind])})" for kind in ("kept", "lost", "entered")]
    involved = {name for edges in kinds.values() for edge in edges for name in pairs[edge]}
    named = {text.get_text().replace(" ", "_") for text in axis.texts} - {"left", "right"}
    assert named == involved


def test_hemispheres_are_on_their_sides():
    layout = layout_of(NAMES)
    axis = connectome_circle(scores(21), scores(21, seed=1), layout, 4).axes[0]
    places = dict(zip(NAMES, axis.collections[0].get_offsets(), strict=True))
    for name, (x, y) in places.items():
        assert math.hypot(x, y) == pytest.approx(1)
        if name.endswith("_L"):
            assert x < 0
            mirrored = places[name[:-1] + "R"]
            assert (mirrored[0], mirrored[1]) == (pytest.approx(-x), pytest.approx(y))
        elif name == "Vermis_3":
            assert (x, y) == (pytest.approx(0, abs=1e-9), pytest.approx(-1))
    assert {"left", "right"} <= {text.get_text() for text in axis.texts}
    plain = connectome_circle(scores(6), scores(6, seed=1), layout_of("abcd"), 2).axes[0]
    assert not {"left", "right"} & {text.get_text() for text in plain.texts}


@pytest.mark.parametrize(
    "names",
    [("lh.insula", "rh.insula"), ("Left Insula", "Right Insula"), ("Insula L", "Insula R"), ("l-a", "r-a")],
)
def test_other_names_of_hemispheres(names):
    axis = connectome_circle(scores(3), scores(3), layout_of([*names, "mid"]), 1).axes[0]
    (left, _), (right, _), _ = axis.collections[0].get_offsets()
    assert left < 0 < right


def test_lobes_of_the_atlas_and_of_other_names():
    assert lobes(["Supp_Motor_Area_L", "Cerebelum_Crus1_R", "Vermis_10", "Heschl_L"]) == (
        "frontal",
        "cerebellum",
        "cerebellum",
        "temporal",
    )
    assert lobes(["Visual12", "Visual3_R", "L_Motor", "7", "L"]) == ("Visual", "Visual", "Motor", "7", "L")


@pytest.mark.parametrize("draw", [connectome_matrix, connectome_circle])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"before": torch.full((21,), float("nan"))}, r"before of shape \(21,\) has 21 values that are NaN"),
        ({"before": torch.rand(20), "after": torch.rand(20)}, r"shape \(20,\) do not fit 7 regions.*\(21,\)"),
        ({"before": torch.rand(2, 21), "after": torch.rand(2, 21)}, r"\(2, 21\).*pick one"),
        ({"after": torch.rand(20)}, r"\(21,\), but after \(20,\)"),
        ({"k": 21}, r"k=21.*\(21,\)"),
        ({"groups": ["a"]}, "1 groups for 7 regions"),
    ],
)
def test_what_does_not_fit_is_refused(draw, change, message):
    given = {"before": scores(21), "after": scores(21), "layout": layout_of(NAMES), "k": 3}
    with pytest.raises(InputError, match=message):
        draw(**{**given, **change})


def test_116_regions_can_be_rendered(tmp_path):
    layout = layout_of([f"Area{i}_{side}" for i in range(58) for side in "LR"])
    before, after = scores(6670), scores(6670) + 0.01 * scores(6670, seed=1)
    connectome_circle(before, after, layout, 50).savefig(tmp_path / "circle.png", dpi=50)
    connectome_matrix(before, after, layout, 50).savefig(tmp_path / "matrix.svg")
    assert (tmp_path / "circle.png").stat().st_size > 5000
    assert "<svg" in (tmp_path / "matrix.svg").read_text()
