import datetime
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import r2et
from r2et import report
from r2et.errors import InputError
from r2et.report import charts, embedding, images, words
from r2et.report.page import fragile_features
from tests.models_with_answers import Siamese, linear, mlp, normal
from tests.report.audits import NASTY, flips_where_told, random_audit

X = normal(16, 5, seed=3)
Y = (X[:, 0] > 0).long()
QUICK = {"budget": "fast", "steps": 3}


class Page(HTMLParser):
    """The tags, the visible text and the scripts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag in ("script", "style", "title"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif not self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())

    @property
    def data(self):
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def told():
    """Three of ten rows flip at radius 0.5, none at 0.05; every name is nasty."""
    model, x, y = flips_where_told()
    return r2et.audit(
        model,
        x,
        y,
        k=1,
        radii=(0.05, 0.5),
        feature_names=NASTY,
        class_names=["<script>alert('no')</script>", "yes & no"],
        name="</title><script>alert(3)</script>",
        **QUICK,
    )


@pytest.fixture(scope="module")
def page(told):
    return Page(report.render(told))


# --- what it says ---------------------------------------------------------------------------------------------


def test_the_verdict_counts_the_rows_that_flip(told, page):
    assert told.samples.precision[1].tolist() == [1, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    assert "30 % of these inputs can be given other reasons without changing the prediction." in page.text
    assert "replaces the one reason for 30 % of these 10 inputs, 0.3 of 1 on average" in page.text
    assert "norm at most 0.5" in page.text
    assert sum(tag == "h1" for tag, _ in page.tags) == 1


def test_accuracy_and_a_missing_auc(told, page):
    assert "accuracy 90.0 %" in page.text
    assert "AUC 0." in page.text
    one_class = report.render(replace(told, auc=float("nan")))
    assert "There is no AUC: the labels hold one class only." in Page(one_class).text
    assert "nan" not in Page(one_class).text.lower()


def test_the_features_that_come_and_go(told):
    found = fragile_features(told)
    assert [(entry["name"], entry["leaves"], entry["enters"]) for entry in found] == [
        (NASTY[1], pytest.approx(0.2), pytest.approx(0.1)),
        (NASTY[0], pytest.approx(0.1), pytest.approx(0.2)),  # row 6 loses it, rows 4 and 5 gain it
    ]
    assert [entry["in_top"] for entry in found] == [pytest.approx(0.6), pytest.approx(0.4)]


def test_a_model_that_cannot_be_certified_is_told_so_in_words(told, page):
    assert told.certificate is None
    assert "There is no certificate. No sound method applies:" in page.text
    assert all(model["rows"]["4"]["certified"] is None for model in page.data["models"])


def test_two_linear_classes_can_never_be_moved():
    found = r2et.audit(linear(5), X, Y, k=2, radii=(0.5,), **QUICK)
    text = Page(report.render(found)).text
    assert "Nothing can change these reasons, but it is one list for everybody." in text
    assert "No attack replaced any of the 2 reasons of any of the 16 inputs" in text
    assert "None can: it is proven for changes of any size" in text


def test_the_explorer_has_the_rows_as_they_are(told, page):
    data = page.data
    assert data["numbers"] == list(range(10))
    model = data["models"][0]
    assert sorted(model["order"][:3]) == [4, 5, 6]
    row = model["rows"]["4"]
    assert row["stay"] == [1.0, 0.0]
    (reason,) = row["before"][0]
    assert data["features"][str(reason[0])] == NASTY[1]
    assert reason[2] == "10"  # it is still there at the first radius, gone at the second
    ((changed, was, by),) = [entry for entry in row["moved"] if entry[0] == 0]
    assert (changed, was) == (0, 0.8)
    assert 0.2 <= by <= 0.5
    assert data["labels"]["9"] == 0


def test_settings_warnings_and_citation(page):
    for part in (
        "Training for Stable Explanation for Free",
        "Chao Chen, Chenghua Guo, Rufeng Chen",
        "WorstCase-2",
        "They were given by the person who ran the audit.",
        "Decision flip",
        "Check of the model",
    ):
        assert part in page.text


# --- escaping ---------------------------------------------------------------------------------------------------


def test_no_name_can_leave_its_place(told, page):
    assert len(page.scripts) == 2
    assert not [tag for tag, _ in page.tags if tag in ("b", "iframe")]
    assert [attributes for tag, attributes in page.tags if tag == "img"] == []
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.data["features"] == {"0": NASTY[0], "1": NASTY[1]}
    assert page.data["classes"] == list(told.class_names)
    for character in "<>&\u2028\u2029":
        assert character not in page.scripts[0]
    titles = [attributes["title"] for tag, attributes in page.tags if tag == "span" and "title" in attributes]
    assert titles == [NASTY[1], NASTY[0]]
    assert told.name in page.text


def test_only_the_page_s_own_script_may_run(page):
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}'", policy)
    assert "unsafe-eval" not in policy


def test_nothing_is_fetched(page):
    for _, attributes in page.tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:", "#")), value


# --- several models ---------------------------------------------------------------------------------------------


def test_models_are_compared_side_by_side():
    moved = r2et.audit(mlp(5, activation=nn.Tanh), X, Y, k=2, radii=(1.0,), **QUICK)
    stable = r2et.audit(linear(5), X, Y, k=2, radii=(1.0,), **QUICK)
    found = Page(report.render({"network": moved, "linear <b>": stable}))
    worst = max(row.displaced for row in moved.attacks)
    assert worst > 0
    assert "“linear <b>” loses fewest reasons." in found.text
    assert f"it loses 0.0 of 2 reasons on average, against {worst:.1f} for “network”" in found.text
    assert [model["name"] for model in found.data["models"]] == ["network", "linear <b>"]
    articles = sum(tag == "article" for tag, _ in found.tags)
    assert articles % 2 == 0
    assert articles >= 12


def test_only_audits_of_the_same_rows_are_compared():
    first, other = random_audit(20, 9, 3), random_audit(21, 9, 3)
    with pytest.raises(InputError, match=r"rows is 20 for 'a', but 21 for 'b'"):
        report.render({"a": first, "b": other})
    with pytest.raises(InputError, match="k is 3"):
        report.render({"a": first, "b": random_audit(20, 9, 2)})
    labels = replace(first.samples, labels=1 - first.samples.labels)
    with pytest.raises(InputError, match="their labels differ"):
        report.render({"a": first, "b": replace(first, samples=labels)})
    with pytest.raises(InputError, match="no audit"):
        report.render({})


def test_other_radii_are_not_compared():
    _, full = words.comparison([random_audit(5, 9, 3), random_audit(5, 9, 3, radii=(0.2,))])
    assert "different radii" in full


# --- size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "n", "k"),
    [
        (1000, 100, 8),
        (2000, 1000, 50),
        (10_000, 9, 8),
        pytest.param(10_000, 2000, 50, marks=pytest.mark.slow),
    ],
)
def test_a_report_stays_small(rows, n, k):
    text = report.render(random_audit(rows, n, k))
    assert len(text.encode()) < 1.6e6
    data = Page(text).data
    assert data["total"] == rows
    assert 24 <= len(data["numbers"]) <= 1000
    assert len(data["models"][0]["order"]) == len(data["numbers"])
    if len(data["numbers"]) < rows:
        assert f"{len(data['numbers']):,} of the {rows:,} rows can be looked at" in Page(text).text


def test_the_most_fragile_rows_are_among_those_shown():
    audit = random_audit(5000, 100, 8)
    chosen = embedding.chosen_rows([audit])
    assert chosen == sorted(set(chosen))
    assert set(audit.samples.most_fragile()[:300].tolist()) <= set(chosen)
    assert max(b - a for a, b in itertools.pairwise(chosen)) < 50


def test_the_date_and_the_title_are_free():
    text = report.render(random_audit(5, 4, 1), title="A & B", date=datetime.date(2026, 1, 2))
    assert "<title>A &amp; B</title>" in text
    assert "2026-01-02" in text


# --- pictures and charts ----------------------------------------------------------------------------------------


def test_a_png_is_what_it_should_be():
    import base64
    import io

    from PIL import Image

    pixels = torch.randint(256, (5, 7, 3), generator=torch.Generator().manual_seed(0)).byte()
    uri = images.data_uri(pixels)
    read = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert read.mode == "RGB"
    assert [list(read.getpixel((x, y))) for y in range(5) for x in range(7)] == pixels.reshape(-1, 3).tolist()


def test_large_pictures_are_made_smaller_and_keep_their_marks():
    marked = torch.zeros(400, 300, dtype=torch.bool)
    marked[123, 45] = True
    shown = images._importance(torch.rand(400, 300), (marked, images.LOST))
    assert max(shown.shape) <= images.SIDE
    assert int((shown == torch.tensor(images.LOST).byte()).all(2).sum()) == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_images(channels):
    layout = r2et.data.ImageLayout((channels, 10, 10), (0.5,) * channels, (0.25,) * channels)
    model = r2et.models.CNN(channels, 10, 3, filters=(2, 2), hidden=(4, 4), activation="softplus", pool="avg")
    x = normal(4, channels, 10, 10).float()
    explainer = r2et.explainers.Gradient(reduce="abs-sum") if channels == 3 else None
    options = {"radii": (1.0,), "layout": layout, "explainer": explainer, "certificate": False, **QUICK}
    found = r2et.audit(model, x, torch.tensor([0, 1, 2, 0]), k=4, **options)
    assert [picture.pixels.shape for picture in found.samples.pictures] == [(1, channels, 10, 10)] * 4
    text = Page(report.render(found))
    sources = [attributes["src"] for tag, attributes in text.tags if tag == "img"]
    assert len(sources) == 3 + 4 * 4
    assert found.feature_names[:2] == ("pixel 0,0", "pixel 0,1")
    assert "Pictures of the most fragile inputs" in text.text


def test_pairs_of_inputs():
    x = normal(6, 2, 5)
    explainer = r2et.explainers.Gradient(inputs=2)
    found = r2et.audit(Siamese(), x, torch.arange(6) % 2, k=2, radii=(2.0,), explainer=explainer, **QUICK)
    page = Page(report.render(found))
    assert page.data["members"] == 2
    assert len(page.data["models"][0]["rows"]["0"]["before"]) == 2
    assert " % of these pairs of inputs can be given other reasons" in page.text
    assert max(entry[0] for entry in page.data["models"][0]["rows"]["0"]["moved"]) >= 5


def test_neurons_are_called_neurons():
    found = r2et.audit(
        mlp(5),
        X,
        Y,
        k=2,
        radii=(2.0,),
        explainer=r2et.explainers.Activation(layer="0"),
        feature_names=list("abcde"),
        **QUICK,
    )
    page = Page(report.render(found))
    assert set(page.data["features"].values()) <= {f"neuron {i}" for i in range(8)}
    assert set(page.data["input_names"].values()) <= set("abcde")
    assert "They do not apply here" in page.text


def test_an_interrupted_audit_says_so():
    audit = replace(random_audit(20, 9, 3), requested=400)
    assert "Interrupted. Only the first 20 of 400 inputs were audited" in Page(report.render(audit)).text


def test_one_feature_more_than_k():
    found = r2et.audit(mlp(5), X, Y, k=4, radii=(0.5,), **QUICK)
    assert "the 4 of 5 features" in Page(report.render(found)).text


def inside(x, y):
    bottom = charts.HEIGHT - charts.BOTTOM
    return charts.LEFT - 0.1 <= x <= charts.WIDTH and charts.TOP - 0.1 <= y <= bottom + 0.1


def test_lines_stay_inside_their_frame():
    audit = random_audit(50, 9, 3)
    chart = charts.bracket(audit, charts.radius_span([audit]))
    lines = re.findall(r'points="([^"]+)"', chart)
    assert lines
    for points in lines:
        for point in points.split():
            assert inside(*map(float, point.split(",")))


def test_bars_stay_inside_their_frame():
    chart = charts.histogram(random_audit(50, 9, 3), 0.0)
    bars = re.findall(r'<rect class="bar" x="([^"]+)" y="([^"]+)" width="([^"]+)" height="([^"]+)"', chart)
    assert bars
    for x, y, width, height in (map(float, bar) for bar in bars):
        assert inside(x, y)
        assert inside(x + width, y + height)


def test_a_file_is_written_in_utf8(told, tmp_path):
    report.write(told, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.render(told)
