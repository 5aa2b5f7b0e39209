"""The report in a real browser: what it shows, what it does, and what it must not do."""

import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

import r2et
from r2et.auditing import Source
from tests.models_with_answers import linear, mlp, normal
from tests.report.audits import NASTY, flips_where_told
from tests.tables_in_units import audited

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not on PATH"),
]

QUICK = {"budget": "fast", "steps": 2}
KINDS = ("table", "image", "comparison", "people")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    model, x, y = flips_where_told()
    options = {"feature_names": NASTY, "class_names": ["<script>alert(1)</script>", "yes"], "name": NASTY[0]}
    table = r2et.audit(model, x, y, k=1, radii=(0.05, 0.5), **options, **QUICK)
    r2et.report.write(table, folder / "table.html")

    source = Source(
        data="people.csv", sha256="ab" * 32, rows=9, drawn="6 of 9 rows", target="Status", numbered=True
    )
    people = replace(audited(), source=source)
    # as rows of a file are called
    numbers = replace(people.samples, row_names=("3", "5", "7", "2821", "11", "13"))
    r2et.report.write(replace(people, samples=numbers), folder / "people.html")

    torch.manual_seed(0)
    cnn = r2et.models.CNN(1, 10, 3, filters=(2, 2), hidden=(4, 4), activation="softplus", pool="avg")
    layout = r2et.data.ImageLayout((1, 10, 10), (0.5,), (0.25,))
    images = normal(8, 1, 10, 10).float()
    labels = torch.arange(8) % 3
    image = r2et.audit(cnn, images, labels, k=15, radii=(2.0,), layout=layout, certificate=False, **QUICK)
    r2et.report.write(image, folder / "image.html")

    rows = normal(12, 6, seed=3)
    known = (rows[:, 0] > 0).long()
    before, after = (
        r2et.audit(each, rows, known, k=3, radii=(1.0,), **QUICK) for each in (mlp(activation=nn.Tanh), linear())
    )
    r2et.report.write({"before": before, "after": after}, folder / "comparison.html")
    return {kind: (folder / f"{kind}.html").as_uri() for kind in KINDS}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, files):
    """Opens a report; at the end, nothing may have been fetched and nothing complained about."""
    contexts, problems = [], []

    def opened(kind, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else problems.append(request.url),
        )
        page.goto(files[kind])
        return page

    yield opened
    for context in contexts:
        context.close()
    assert problems == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_runs_over_the_edge_of_a_phone(visit, kind):
    page = visit(kind, width=360)
    widths = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    assert max(widths) == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_accessibility(visit, kind, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(kind, scheme=scheme)
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    found = axe.run(page)
    serious = [entry for entry in found.response["violations"] if entry["impact"] in ("serious", "critical")]
    assert [(entry["id"], [node["html"][:200] for node in entry["nodes"][:3]]) for entry in serious] == []


def test_the_first_screen_holds_the_verdict_and_the_bracket(visit):
    page = visit("table")
    heading = page.get_by_role("heading", level=1)
    assert "30 % of these inputs can be given other reasons" in heading.inner_text().replace("\u00a0", " ")
    chart = page.locator("svg.chart").first
    assert chart.bounding_box()["y"] < 500
    assert page.get_by_text("90.0 %").first.is_visible()


def test_the_explorer(visit):
    page = visit("table")
    assert page.locator("#status").inner_text().startswith("Row 4: number 1 of 10")
    # row 4 loses its reason, the second feature, at the larger radius alone
    explored = page.locator("#explored")
    assert "1 of its 1 reasons can be replaced" in explored.inner_text()
    before, after = explored.locator("table.reasons").all()
    assert NASTY[1] in before.inner_text()
    assert "leaves" in before.inner_text()
    assert "enters" in after.inner_text()
    assert "What the attack changed" in explored.inner_text()
    page.locator("#radius").select_option("0.05")
    assert "No attack replaced any of its reasons." in explored.inner_text()
    assert page.get_by_role("button", name="Previous").is_disabled()
    page.get_by_role("button", name="Next").click()
    assert "number 2 of 10" in page.locator("#status").inner_text()
    page.locator("#order").select_option("data")
    assert page.locator("#row").input_value() == "0"
    page.locator("#row").fill("9")
    page.locator("#row").press("Enter")
    assert page.locator("#status").inner_text().startswith("Row 9: number 10 of 10")
    assert page.get_by_role("button", name="Next").is_disabled()
    assert "<script>alert(1)</script>: the prediction is wrong" in explored.inner_text()
    page.locator("#row").fill("99")
    page.locator("#row").press("Enter")
    assert "Row 99 is not in this file; the nearest that is, is row 9." in page.locator("#status").inner_text()


def test_the_explorer_of_people(visit):
    page = visit("people")
    page.locator("#row").fill("2821")
    page.locator("#row").press("Enter")
    assert page.locator("#status").inner_text().startswith("Row 2821: number ")
    explored = page.locator("#explored")
    assert "Decision: Status = good (probability 100 %). In the data: Status = good, as predicted." in (
        explored.inner_text().replace("\u00a0", " ")
    )
    before, after = explored.locator("table.reasons").all()
    assert [cell.inner_text() for cell in before.locator("tbody tr").first.locator("th, td").all()][:3] == [
        "1",
        "Age ↓ leaves",
        "40",
    ]
    changed = explored.locator("table.changes tbody tr").all()
    cells = {line.locator("th").inner_text(): line.locator("td").all_inner_texts() for line in changed}
    was, becomes = cells["Income"]
    assert was == "2400"
    assert int(becomes) >= 2500
    # the list afterwards is of the changed row
    assert becomes in after.inner_text()
    page.locator("#radius").select_option("0.05")
    assert explored.locator("table.changes").count() == 0
    page.locator("#row").fill("2900")
    page.locator("#row").press("Enter")
    assert (
        "Row 2900 is not in this file; the nearest that is, is row 2821." in page.locator("#status").inner_text()
    )
    page.locator("#row").fill("")
    page.locator("#row").press("Enter")
    assert page.locator("#row").input_value() == "2821"


def test_examples_and_provenance_are_there_without_a_script(browser, files):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["people"])
    assert "Income 2400 →" in page.locator(".example").nth(0).inner_text() + page.locator("main").inner_text()
    assert "sha256 abababababab..." in page.locator("table.provenance").inner_text()
    context.close()


def test_the_explorer_by_keyboard_alone(visit):
    page = visit("table")
    page.locator("#row").focus()
    page.keyboard.press("Tab")  # the disabled button is left out
    assert page.evaluate("document.activeElement.id") == "next"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert "number 2 of 10" in page.locator("#status").inner_text()


def test_the_keyboard_can_skip_to_the_findings(visit):
    page = visit("table")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_the_system_s_until_it_is_chosen(visit, scheme):
    page = visit("table", scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
    other = {"light": "Dark theme", "dark": "Light theme"}[scheme]
    assert page.evaluate(colour) == (light if scheme == "light" else dark)
    page.get_by_role("button", name=other).click()
    assert page.evaluate(colour) == (dark if scheme == "light" else light)
    page.reload()
    assert page.evaluate(colour) == (dark if scheme == "light" else light)


def test_two_models_side_by_side(visit):
    page = visit("comparison")
    first, second = (panel.bounding_box() for panel in page.locator("#explored > .panel").all())
    assert first["y"] == second["y"]
    assert "It is proven that no change of any size replaces one of its reasons." in (
        page.locator("#explored > .panel").nth(1).inner_text()
    )
    page.locator("#order").select_option("fragile-1")
    assert "number 1 of 12" in page.locator("#status").inner_text()


def test_pictures_are_drawn(visit):
    page = visit("image")
    page.get_by_text("2 more").click()
    assert page.locator("#explored .strip img").count() == 4
    drawn = page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth === 10)")
    assert drawn
    assert page.locator("img").count() == 3 + 8 * 4 + 4


def test_it_prints_in_ink(visit, tmp_path):
    page = visit("table", scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#controls").is_visible()
    printed = page.pdf(path=tmp_path / "report.pdf", format="A4")
    assert printed[:5] == b"%PDF-"
