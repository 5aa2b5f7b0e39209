"""Individuality in the benchmark: what a study records, and what the honest table shows of it."""

import statistics
from typing import Any, get_args

from torch import Tensor

from r2et import ranking
from r2et.domain import IN_WORDS, Threat
from r2et.individuality import Individuality
from r2et_bench.layout import TableEntry
from r2et_bench.results import Row
from r2et_bench.studied import StudiedModel

#: how a column of the honest table says that there is no kappa
ONE_LIST = "one list"


def list_figures(studied: StudiedModel, precision: Tensor, threat: Threat = "paper") -> dict[str, Any]:
    """How alike the lists of the first test inputs are, and the kappa of their P@k (N,), as plain JSON values."""
    explainer, k = studied.preset.explainer, studied.data.k
    domain = studied.known(threat).get("domain")
    explained = explainer.explained(studied.model, studied.inputs(len(precision)), domain=domain)
    lists = Individuality.of(
        ranking.top_k(explained.scores, k),
        explained.scores.shape[-1],
        classes=explained.target,
        precision=precision[None],
        signed=explainer.reduce == "signed",
    )
    kappas = lists.kappas()
    return {**lists.to_dict(), "kappa": None if kappas is None else kappas[0].to_dict()}


def kappa_entry(row: Row) -> TableEntry:
    """Kappa over seeds, from what is proven to what was attacked, or that there is one list for everybody."""
    alike = [
        value
        for record in row.records
        if (value := record["studies"].get("worst", {}).get("values", {}).get("individuality")) is not None
    ]
    attacked = row.values("worst/individuality/kappa/value")
    if not alike:
        return TableEntry()
    if not attacked:
        return TableEntry(text=ONE_LIST)
    proven = row.values("certified/individuality/kappa/value")
    text = f"{statistics.mean(attacked.values()):.2f}"
    if proven.keys() == attacked.keys():
        text = f"{statistics.mean(proven.values()):.2f} to {text}"
    same = len(alike) - len(attacked)
    return TableEntry(text=f"{text} ({same} of {len(alike)}: {ONE_LIST})" if same else text)


def chance_note(rows: list[Row]) -> str | None:
    """What lists drawn at random share, for the notes of a section; None if the records do not say."""
    chance = next((value for row in rows if (value := row.first("worst/individuality/chance", float))), None)
    return None if chance is None else f"Lists drawn by chance have P@k {100 * chance:.1f}."


def attack_note(rows: list[Row]) -> str:
    """Which recipe and threat the figures of the column *worst* come from."""
    recipes = sorted({name for row in rows if (name := row.first("worst/recipe", str))})
    # before records said so, the paper's threat was the only one
    threats = sorted({row.first("worst/threat", str) or "paper" for row in rows if row.values("worst/precision")})
    moved = "; ".join(f"{name} ({IN_WORDS[name]})" for name in get_args(Threat) if name in threats)
    return (
        f"Attacked by {' and '.join(recipes) or 'nothing yet'} under the threat {moved or 'paper'}. Lists are of "
        "encoded features by the explanation that the model was trained for, with nothing centred."
    )
