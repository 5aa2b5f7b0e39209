"""What people hand to an audit besides rows: names, and radii that fit the data."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from r2et.data.layouts import GraphLayout, ImageLayout
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import Activation, ByColumns, Explainer
from r2et.numerics.values import check_names, check_number, check_positive, check_radii, check_text
from r2et.scores import TOLERANCE

Layout = ImageLayout | GraphLayout
#: the default radii, in standard deviations of a typical feature
FRACTIONS = (0.1, 0.3, 1.0)


# --- what a number is -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a model with one output predicts: a number = mean + scale x its output.

    Args:
        name: of the number, such as a column of a table.
        mean, scale: what the output is multiplied by and added to.
        tolerance: a prediction counts as kept while it moves by at most this, in the units of the number; None = a
            tenth of `scale`.

    >>> price = Outcome("price", mean=10_000.0, scale=2_000.0)
    >>> price.of(1.15), price.text(1.15), price.kept_within
    (12300.0, '12,300', 200.0)
    """

    name: str = "output"
    mean: float = 0.0
    scale: float = 1.0
    tolerance: float | None = None

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_number("mean", self.mean)
        check_positive("scale", self.scale)
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)

    @property
    def kept_within(self) -> float:
        """The tolerance in the units of the number."""
        return TOLERANCE * self.scale if self.tolerance is None else self.tolerance

    def of(self, output: float) -> float:
        """The number that an output stands for."""
        return self.mean + self.scale * output

    def text(self, output: float) -> str:
        """The number that an output stands for, as people read it."""
        return number_as_text(self.of(output))


def number_as_text(value: float) -> str:
    """A number as people read it: about four digits, whole ones of thousands apart.

    >>> [number_as_text(value) for value in (12_300.4, 0.012345, 3.0, -1e9)]
    ['12,300', '0.01235', '3', '-1,000,000,000']
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def outcome_of(y: Tensor) -> Outcome:
    """Of a model that came without one: its output is the number; the tolerance is from how y (N,) vary."""
    spread = float(y.double().std(correction=0)) if len(y) > 1 else 0.0
    return Outcome(tolerance=TOLERANCE * spread if spread > 0 else None)


# --- names ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """What features and classes are called.

    Attributes:
        ranked: of the n features that an explanation ranks.
        inputs: of the features of one input.
        classes: of the classes; none where a number is predicted.
    """

    ranked: tuple[str, ...]
    inputs: tuple[str, ...]
    classes: tuple[str, ...]


def read_names(
    features: Iterable[Any] | None,
    classes: Iterable[Any] | None,
    *,
    layout: Layout | None,
    explainer: Explainer,
    ranked: int,
    inputs: int,
    logits: int,
) -> Names:
    """Names for `ranked` features of an explanation of `inputs` features, and for `logits` classes.

    Neurons, columns of a table, and pixels summed over channels, are not features of the input: given names are
    theirs only if there are as many names as of them, and not as of the input's features.
    """
    if layout is not None and layout.features != inputs:
        raise InputError(f"the layout has {layout.features} features, one input has {inputs}")
    of_inputs = _default_names(layout, inputs)
    of_ranked = of_inputs if ranked == inputs else tuple(f"feature {i}" for i in range(ranked))
    if isinstance(explainer, Activation):
        of_ranked = tuple(f"neuron {i}" for i in range(ranked))
    elif isinstance(explainer, ByColumns):
        of_ranked = tuple(explainer.columns.names)
    elif isinstance(layout, ImageLayout) and ranked == layout.shape[1] * layout.shape[2] != inputs:
        of_ranked = ImageLayout((1, *layout.shape[1:]), (0.0,), (1.0,)).names
    if features is not None:
        names = check_names("feature_names", features)
        if len(names) not in (inputs, ranked):
            ranks = "" if ranked == inputs else f", or {ranked} that are ranked"
            raise InputError(f"{len(names)} feature names for {inputs} features{ranks}")
        if len(names) == inputs:
            of_inputs = names
            own = isinstance(explainer, Activation | ByColumns)
            of_ranked = names if ranked == inputs and not own else of_ranked
        else:
            of_ranked = names
    return Names(of_ranked, of_inputs, _class_names(classes, logits))


def _default_names(layout: Layout | None, count: int) -> tuple[str, ...]:
    return layout.names if layout is not None else tuple(f"feature {i}" for i in range(count))


def _class_names(wanted: Iterable[Any] | None, count: int) -> tuple[str, ...]:
    if count == 1 and wanted is not None:
        raise InputError("the model has one output, a number and no class: leave out class_names (--classes)")
    if wanted is None:
        return tuple(f"class {i}" for i in range(count)) if count > 1 else ()
    names = check_names("class_names", wanted)
    if len(names) != count:
        raise InputError(f"{len(names)} class names for {count} classes: {', '.join(map(repr, names[:10]))}")
    return names


# --- radii ------------------------------------------------------------------------------------------------------


def typical_spread(x: Tensor, domain: Domain | None, inputs: int) -> float | None:
    """The median standard deviation over the rows of x (N, *features), of features that vary and may be moved.

    >>> import torch
    >>> typical_spread(torch.tensor([[0.0, 5.0, 1.0], [2.0, 5.0, 5.0]]), Domain(frozen=[2]), inputs=1)
    1.0
    """
    flat = x.detach().flatten(start_dim=inputs).reshape(-1, x[0].numel() // inputs)
    domain = Domain() if domain is None else domain
    domain.check(flat.shape[1])
    deviations = flat.double().std(0, correction=0)
    varying = deviations[(deviations > 0) & domain.reach("domain", flat.shape[1]).movable.to(x.device)]
    return float(varying.median()) if len(varying) else None


def choose_radii(wanted: Iterable[float] | None, spread: float | None) -> tuple[tuple[float, ...], str]:
    """The radii, and where they come from in a sentence.

    >>> choose_radii(None, 2.0)[0]
    (0.2, 0.6, 2.0)
    """
    if wanted is not None:
        return check_radii(wanted), "They were given by the person who ran the audit."
    shares = ", ".join(f"{share:g}" for share in FRACTIONS[:-1]) + f" and {FRACTIONS[-1]:g}"
    if spread is None:
        return FRACTIONS, (
            f"They are {shares}, because no feature that may be moved varies in these rows: there is no scale to "
            "take them from."
        )
    return tuple(float(f"{share * spread:.2g}") for share in FRACTIONS), (
        f"They are {shares} times the standard deviation of a typical feature in these rows ({spread:.3g}, the "
        "median over the features that vary and may be moved)."
    )
