"""How much memory a proof takes, before any of it is taken."""

from dataclasses import dataclass

from r2et.enclosure.network import INPUT, LONG, MOST_PRODUCTS, Network
from r2et.enclosure.slopes import ENTRIES_AT_ONCE
from r2et.errors import ModelError
from r2et.explainers import ColumnEffects, Contributions, Explainer, SmoothGrad
from r2et.numerics.memory import MOST_BYTES, at_once, in_gigabytes

#: numbers are kept in float64
BYTES = 8
#: balls that are kept together: of smooth networks, and of those made of linear pieces
SMOOTH_BALLS, PIECEWISE_BALLS = 48, 96
#: copies that are kept, as counted in runs: of the base; of a functional; of what is known of an attribution on a
#: ball; of a point; of a neuron on a ball; of a box of derivatives of neurons
BASES, OF_FUNCTIONAL, ON_BALL, OF_POINT, OF_NEURON, BOXES = 6, 30, 6, 6, 8, 8
#: entries of bounds of functionals on all balls that are kept at once; how many copies of these, and of slopes
STEP, STEPS, SLOPES = 2**21, 12, 3
#: numbers in the tables of one column of an additive score
OF_TABLE = 40 * 768
#: pieces of what each neuron adds to the effect of a column, in the dual bound (an even number, so that x is
#: between two), and copies of them that are kept, as counted in runs
COLUMN_PIECES, OF_PIECE = 32, 18


@dataclass(frozen=True)
class Size:
    """What the memory of a proof depends on.

    Attributes:
        features: of an input, n.
        attributions: how many of them are ranked.
        k: how many are on the list.
        base: rows of the matrices that multiply the input, K.
        neurons: in all layers.
        matrices: entries of all matrices that do not multiply the input.
        widest: entries of the largest derivative of a layer by base @ x.
        points: at which the network is enclosed around an input.
        compared: rows that an input is compared with, beside those.
        balls: that are kept together.
        tables: numbers in tables of an additive score.
        pieces: numbers in tables of what neurons add to the effects of columns, for each input.

    >>> small, large = (Size.guessed(features, 64, 8) for features in (1_000, 100_000))
    >>> large.bytes_of(1) < 4e9, large.bytes_of(1) / small.bytes_of(1) < 100
    (True, True)
    """

    features: int
    attributions: int
    k: int
    base: int
    neurons: int
    matrices: int = 0
    widest: int = 0
    points: int = 1
    compared: int = 0
    balls: int = PIECEWISE_BALLS
    tables: int = 0
    pieces: int = 0

    @staticmethod
    def of(network: Network, explainer: Explainer, k: int, *, additive: bool = False) -> "Size":
        """Of proofs about an explanation of a network; `additive` = by the exact certificate of such scores."""
        base, features = network.base.shape
        later = [layer for layer in network.layers if set(layer.matrices) != {INPUT}]
        inner = [m for layer in (*network.layers, network.logits) for s, m in layer.matrices.items() if s != INPUT]
        by_pieces = 0 if additive else column_pieces(network, explainer)
        return Size(
            features=features,
            k=k,
            base=base,
            neurons=_neurons(network),
            matrices=sum(matrix.numel() for matrix in inner),
            widest=max([len(network.logits.bias), *(len(layer.bias) for layer in later)]) * base,
            balls=SMOOTH_BALLS if network.smooth else PIECEWISE_BALLS,
            tables=features * OF_TABLE if additive else 0,
            # with more than there is room for the dual bound takes no part
            pieces=by_pieces if BYTES * by_pieces <= MOST_BYTES else 0,
            **looked_at(explainer, features),
        )

    @staticmethod
    def guessed(features: int, neurons: int, k: int, explainer: Explainer | None = None) -> "Size":
        """At least that much, from the number of neurons alone."""
        known = {"attributions": features} if explainer is None else looked_at(explainer, features)
        return Size(features=features, k=k, base=0, neurons=neurons, **known)

    @property
    def functionals(self) -> int:
        """Of all pairs of one attribution on the list and one that is not, with both signs."""
        return 2 * self.k * max(0, self.attributions - self.k)

    @property
    def fixed(self) -> int:
        """Numbers that are kept once."""
        products = 3 * min(self.base, MOST_PRODUCTS) ** 2
        return BASES * self.base * self.features + 2 * self.matrices + products + self.tables

    @property
    def of_row(self) -> int:
        """Numbers that are kept for each input."""
        points = self.points + self.compared
        kept = self.points * self.neurons * OF_NEURON * self.balls + self.compared * self.base * 5 * self.balls
        derivatives = OF_POINT * points * self.features + BOXES * points * self.widest
        functionals = 0 if self.tables else OF_FUNCTIONAL * self.functionals
        return kept + derivatives + functionals + ON_BALL * self.attributions * self.balls

    def steps(self, rows: int) -> int:
        """Numbers of the temporary tensors of one step of the work."""
        long = max(self.base, self.features if self.features <= LONG else 0)
        slopes = min(ENTRIES_AT_ONCE, rows * self.points * self.attributions * long)
        bounds = min(STEP, rows * self.functionals * self.balls)
        return SLOPES * slopes + (0 if self.tables else STEPS * bounds)

    def bytes_of(self, rows: int) -> int:
        """What a proof for `rows` inputs at once takes, in bytes."""
        return BYTES * (self.fixed + rows * (self.of_row + self.pieces) + self.steps(rows))

    def rows_at_once(self, most: int) -> int:
        """How many inputs are worked on together, at most `most`."""
        room = MOST_BYTES // (2 * BYTES * self.pieces) if self.pieces else most
        return min(most, at_once(self.of_row), max(1, room))

    def check(self) -> None:
        """Refuse a proof that has no room even for one input, before anything of it is allocated."""
        asked = self.bytes_of(1)
        if asked > MOST_BYTES:
            network = f" and a network of {self.neurons:,} neurons" if self.neurons else ""
            raise ModelError(
                f"a proof for one input of {self.features:,} features{network}, "
                f"with {self.functionals:,} functionals for k={self.k}, would take about {in_gigabytes(asked)} of "
                f"memory, more than the {in_gigabytes(MOST_BYTES)} that are allowed: explain fewer features or "
                'columns, take a smaller k or a smaller network, or use method="smoothing"'
            )


def column_pieces(network: Network, explainer: Explainer) -> int:
    """Numbers that the dual bound of effects of columns keeps for each input; 0 = another explanation."""
    if not isinstance(explainer, ColumnEffects):
        return 0
    return OF_PIECE * COLUMN_PIECES * len(explainer.columns) * _neurons(network)


def _neurons(network: Network) -> int:
    return sum(len(layer.bias) for layer in network.layers)


def looked_at(explainer: Explainer, features: int) -> dict[str, int]:
    """How many attributions are ranked, and from how many points each."""
    if isinstance(explainer, ColumnEffects):
        columns = explainer.columns
        values = [len(shares) for shares in columns.frequencies if len(shares)]
        missing = sum(flag >= 0 for flag in columns.missing)
        return {"attributions": len(columns), "compared": sum(values) - len(values) + missing}
    if isinstance(explainer, Contributions):
        return {"attributions": len(explainer.columns)}
    points = explainer.samples if isinstance(explainer, SmoothGrad) else 1
    return {"attributions": features, "points": points}
