"""Help names what there is, when help is asked for."""

import pytest
import typer
from typer.testing import CliRunner

from r2et.attacks import ATTACKS, NoiseAttack
from r2et.cli.listing import ListingCommand
from r2et.explainers import EXPLAINERS
from r2et.recipes import method_names


@pytest.fixture
def shown(monkeypatch):
    """The help of a command whose texts name lists, on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    app = typer.Typer(rich_markup_mode=None)

    @app.command(cls=ListingCommand, help="Of {attacks}.")
    def command(
        explainer: str = typer.Option("", help="One of {explainers}."),
        method: str = typer.Option("", help="One of {methods}, {other}."),
    ) -> None:
        pass

    return lambda: " ".join(CliRunner().invoke(app, ["--help"]).output.split())


def test_every_list_is_filled_in(shown):
    text = shown().replace("- ", "-")  # a line may end after a hyphen
    assert f"Of {', '.join(ATTACKS.names())}." in text
    assert f"One of {', '.join(EXPLAINERS.names())}." in text
    assert f"One of {', '.join(method_names())}, {{other}}." in text


def test_names_are_looked_up_when_help_is_asked_for(shown):
    assert "jitter" not in shown()

    @ATTACKS.register("jitter")
    class Jitter(NoiseAttack):
        pass

    assert "jitter" in shown()
