"""What `r2et bench run` computes: data sets, methods, grids, seeds and studies, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from r2et.numerics.values import check_choice, check_count, check_kind, check_names, check_text
from r2et.recipes import METHODS, grids
from r2et.recipes.method import Grid


@dataclass(frozen=True)
class Study:
    """One thing that is measured on trained models.

    Args:
        name: of `r2et_bench.studied.STUDIES`, or `package.module:function`, which is imported.
        settings: its arguments.
        methods: measured on these; None = on all.
        seeds: measured on this many first seeds; None = on all.
        retrained: measured on retrained models too.
        lighter: measured on the second row of a method too.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    retrained: bool = False
    lighter: bool = False

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_kind("settings", self.settings, Mapping, '{"rows": 40}')


@dataclass(frozen=True)
class BenchmarkPlan:
    """A benchmark.

    Args:
        name: of `--preset`.
        data: data sets.
        methods: rows of the tables, in their order; objectives by name or `package.module:Class` are methods too.
        preset: of `r2et.recipes`, whose settings count where this plan gives none.
        schedule: options of `fit` for training from scratch.
        retraining: options of `fit` for retraining.
        seeds: how many.
        fewer: of some methods, the number of seeds.
        grid: of some methods, hyper-parameters to choose from on the first seed (`r2et.recipes.grids`); the
            others take what suits the kind of data.
        rungs: of successive halving, as shares of the epochs; after each, half of the candidates go on.
        patient: methods whose candidates are all trained to the end: strong regularisers hold a model linear for
            half of the training, and halving would drop those that pass the AUC threshold late.
        selection: how candidates are judged: `rows` of the validation data, `steps` of ERAttack.
        studies: what is measured.
        retrained: methods that are also retrained from the vanilla model (Table 8).
        pairs: of these methods, models with k' = 1..k (Fig. 9), on these data.
        further_seeds: how many seeds these two get.
        lighter: of some data sets and methods, hyper-parameters of a second row of the honest table, with less
            stability and more accuracy than the rule chooses.
        limit: of the training rows, this many are used; None = all.
        apart: shown only when asked for by name: another plan has the same data, or it is a toy.
    """

    name: str
    data: tuple[str, ...]
    methods: tuple[str, ...]
    studies: tuple[Study, ...]
    preset: str = "cpu"
    schedule: Mapping[str, Any] = field(default_factory=dict)
    retraining: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 3
    fewer: Mapping[str, int] = field(default_factory=dict)
    grid: Mapping[str, Grid] = field(default_factory=dict)
    rungs: tuple[float, ...] = (0.25, 0.5, 1.0)
    patient: tuple[str, ...] = ("r2et-sf",)
    selection: Mapping[str, int] = field(default_factory=lambda: {"rows": 1000, "steps": 200})
    retrained: tuple[str, ...] = ()
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    further_seeds: int = 2
    lighter: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    limit: int | None = None
    apart: bool = False

    def __post_init__(self) -> None:
        for name in ("data", "methods"):
            check_names(name, getattr(self, name))
        check_count("seeds", self.seeds)

    def seeds_of(self, method: str) -> int:
        """How many seeds a method gets."""
        return min(self.seeds, self.fewer.get(method, self.seeds))


_ALL = (
    "linear", "vanilla", "wd", "sp", "est-h", "exact-h", "ssr", "at",
    "r2et-no-h", "r2et-mm-no-h", "r2et", "r2et-mm", "r2et-sf",
)  # fmt: skip
#: exact Hessians and their eigenvalues are for tables only, as in the paper
_IMAGES = tuple(name for name in _ALL if name not in ("linear", "exact-h", "ssr"))
_CORRELATED = ("vanilla", "est-h", "r2et", "r2et-sf")

_TABULAR_STUDIES = (
    Study("prediction", retrained=True, lighter=True),
    Study("attacks", {"rows": 500}, retrained=True, lighter=True),
    Study("sizes", {"rows": 300, "sizes": [2, 5], "steps": 300}),
    Study("worst", {"rows": 500, "budget": "standard"}, lighter=True),
    Study("certified", {"rows": 200}, lighter=True),
    Study("thickness", {"rows": 1000}),
    Study("last", {"rows": 500, "steps": 200}),
    Study("explainers", {"rows": 100, "steps": 50}, seeds=3),
    Study("faithfulness", {"rows": 1000}, lighter=True),
    Study("regularisers", {"rows": 1000}, seeds=1),
    Study("magnitude", {"rows": 200, "points": 100}, seeds=1),
    Study("correlation", {"rows": 300}, methods=_CORRELATED, seeds=1),
    Study("masking", {"rows": 60}, methods=("r2et-sf",), seeds=1),
)


def _image_studies(
    *, rows: int, few: int, steps: int, mse: bool = True, faithfulness: bool = True, sizes: bool = True
) -> tuple[Study, ...]:
    return (
        Study("prediction"),
        Study("attacks", {"rows": rows, "mse": mse}),
        Study("worst", {"rows": few, "budget": "fast"}),
        *((Study("sizes", {"rows": few, "sizes": [10, 30], "steps": steps}, seeds=1),) if sizes else ()),
        Study("thickness", {"rows": few, "samples": 8, "steps": 4}),
        Study("last", {"rows": few, "steps": steps, "mse": mse}, seeds=1),
        *((Study("faithfulness", {"rows": few}),) if faithfulness else ()),
        Study("magnitude", {"rows": few, "points": 100}, seeds=1),
    )


PLANS: dict[str, BenchmarkPlan] = {
    plan.name: plan
    for plan in (
        BenchmarkPlan(
            name="paper-tabular",
            data=("adult", "bank", "compas"),
            methods=_ALL,
            schedule={"epochs": 40, "patience": 20, "batch_size": 512},
            retraining={"epochs": 10, "batch_size": 512},
            seeds=5,
            rungs=(0.5, 1.0),
            fewer={"exact-h": 1, "ssr": 1, "at": 3, "wd": 3, "r2et-mm-no-h": 3, "r2et-mm": 3},
            grid=grids("paper-tabular", METHODS),
            studies=_TABULAR_STUDIES,
            retrained=("wd", "cl", "est-h", "exact-h", "ssr", "r2et-no-h", "r2et-mm-no-h", "r2et", "r2et-mm"),
            pairs={"r2et-mm-no-h": ("bank",)},
            lighter={
                name: {"r2et-sf": METHODS["r2et-sf"].variants[f"lighter-{name}"]}
                for name in ("adult", "bank", "compas")
            },
        ),
        BenchmarkPlan(
            name="mnist",
            data=("mnist-pairs",),
            methods=_IMAGES,
            schedule={"epochs": 12},
            fewer={name: 1 for name in _IMAGES if name not in ("vanilla", "r2et", "r2et-sf")},
            grid=grids("cpu", ("sp", "r2et-no-h", "r2et-mm-no-h")),
            rungs=(0.5, 1.0),
            selection={"rows": 40, "steps": 50},
            studies=(
                *_image_studies(rows=100, few=50, steps=50),
                Study("explainers", {"rows": 10, "steps": 10}, seeds=1),
                Study("correlation", {"rows": 60, "flip_below": 0.8}, methods=("r2et",), seeds=1),
            ),
        ),
        BenchmarkPlan(
            name="mnist-paper",
            data=("mnist-pairs",),
            methods=("vanilla", "r2et", "r2et-sf"),
            preset="paper",
            seeds=1,
            studies=_image_studies(rows=200, few=50, steps=50),
            apart=True,
        ),
        BenchmarkPlan(
            name="cifar10",
            data=("cifar10",),
            methods=_IMAGES,
            seeds=1,
            rungs=(1.0,),
            studies=_image_studies(rows=40, few=8, steps=30, mse=False, sizes=False),
        ),
        BenchmarkPlan(
            name="abide",
            data=("abide",),
            methods=_IMAGES,
            fewer={name: 1 for name in _IMAGES if name not in ("vanilla", "r2et", "r2et-sf")},
            rungs=(1.0,),
            studies=(
                *_image_studies(rows=40, few=8, steps=30, mse=False, sizes=False),
                Study("correlation", {"rows": 40, "flip_below": 0.8, "samples": 8}, methods=("r2et",), seeds=1),
                Study(
                    "constrained",
                    {"rows": 8, "steps": 20, "lengths": [0.02, 0.05]},
                    methods=("vanilla",),
                    seeds=1,
                ),
            ),
        ),
        BenchmarkPlan(
            name="oct",
            data=("oct",),
            methods=("vanilla", "r2et", "r2et-sf"),
            rungs=(1.0,),
            studies=_image_studies(rows=40, few=12, steps=30, mse=False, faithfulness=False, sizes=False),
        ),
        BenchmarkPlan(
            name="smoke",
            apart=True,
            data=("breast-cancer",),
            methods=("linear", "vanilla", "sp", "r2et", "r2et-sf"),
            schedule={"epochs": 6, "batch_size": 64},
            retraining={"epochs": 2, "batch_size": 64},
            seeds=2,
            grid=grids("smoke", METHODS),
            rungs=(0.5, 1.0),
            selection={"rows": 40, "steps": 20},
            studies=(
                Study("prediction", retrained=True),
                Study("attacks", {"rows": 40, "steps": 30}, retrained=True),
                Study("sizes", {"rows": 20, "sizes": [2, 5], "steps": 20}),
                Study("worst", {"rows": 20, "budget": "fast"}),
                Study("certified", {"rows": 10}),
                Study("thickness", {"rows": 40}),
                Study("last", {"rows": 40, "steps": 20}),
                Study("explainers", {"rows": 4, "steps": 5}, seeds=1),
                Study("faithfulness", {"rows": 40}),
                Study("regularisers", {"rows": 40}, seeds=1),
                Study("magnitude", {"rows": 20, "points": 100}, seeds=1),
                Study("correlation", {"rows": 20, "steps": 50}, methods=("vanilla", "r2et"), seeds=1),
                Study(
                    "constrained", {"rows": 20, "steps": 10, "lengths": [0.05, 0.2]}, methods=("vanilla",), seeds=1
                ),
            ),
            retrained=("r2et",),
            pairs={"r2et-mm-no-h": ("breast-cancer",)},
            further_seeds=1,
        ),
    )
}


def find_plan(name: str) -> BenchmarkPlan:
    """A plan by name; an unknown one is an InputError that lists all.

    >>> find_plan("smoke").data
    ('breast-cancer',)
    """
    check_choice("preset", name, PLANS)
    return PLANS[name]
