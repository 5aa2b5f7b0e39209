"""The bracket of an audit: for as many rows as the size of the network allows, or a sentence on why not."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from r2et.attacks import Attack, AttackResult
from r2et.certificates import Bracket, Certificate
from r2et.certificates.bracketing import assembled, judged_in_float64, larger, named
from r2et.certificates.choice import certify_within
from r2et.certificates.exchange import quick_at_radii
from r2et.domain import Reach
from r2et.enclosure.size import Size
from r2et.errors import ContradictionError, InputError
from r2et.explainers import ColumnEffects, Explainer
from r2et.numerics.autograd import forward
from r2et.numerics.memory import MOST_BYTES, in_gigabytes
from r2et.numerics.twins import twin

#: features x neurons of a network: up to CHEAP every row is certified, above DEAR none (it takes about a minute),
#: and in between as many rows as TOTAL allows
CHEAP, TOTAL, DEAR = 2**12, 2**22, 2**20


class Certifier:
    """Certifies chunks of rows beside an attack, and remembers why it could not.

    Both ends are about the model in float64, the explanation and the threat of the audit, and attackers who keep
    the prediction; what is proven holds for others too.

    Attributes:
        wanted: numbers of the rows that are certified, rising, spread evenly over all rows.
        reason: why there is no certificate, or not one of all rows; "" = there is one of all rows.
        withdrawn: whether an attack contradicted it: then nothing that it says counts, of any row.
    """

    def __init__(
        self, model: nn.Module, x: Tensor, k: int, explainer: Explainer, *, reach: Reach, wanted: bool
    ) -> None:
        self.model, self.k, self.explainer, self.reach = model, k, explainer, reach
        self.wanted: list[int] = []
        self.withdrawn = False
        self.reason = "It was not asked for."
        if wanted:
            self._plan(x)

    def _plan(self, x: Tensor) -> None:
        neurons, rows = _neurons(self.model, x[:1]), len(x)
        size = x[0].numel() * neurons
        if isinstance(self.explainer, ColumnEffects):
            # each row is enclosed together with those that it is compared with
            size *= 1 + self.explainer.variants(x[:1])[1].shape[1]
        self.reason = ""
        asked = Size.guessed(x[0].numel(), neurons, self.k, self.explainer).bytes_of(1)
        if asked > MOST_BYTES:
            self.reason = (
                f"A certificate of one row would take at least {in_gigabytes(asked)} of memory "
                f"({x[0].numel():,} features, {neurons:,} neurons, k={self.k})."
            )
            return
        if size > DEAR:
            self.reason = (
                f"The network is too large for a certificate inside an audit ({x[0].numel():,} features, "
                f"{neurons:,} neurons): r2et.certify on a few rows may still give one."
            )
            return
        count = rows if size <= CHEAP else min(rows, max(1, TOTAL // size))
        self.wanted = [number * rows // count for number in range(count)]
        if count < rows:
            self.reason = (
                f"It was computed for {count:,} of the {rows:,} rows, evenly spread, because it takes long for "
                "a network of this size."
            )

    def __call__(
        self, x: Tensor, first: int, attack: Attack, found: Sequence[AttackResult], radii: Sequence[float]
    ) -> tuple[Bracket | None, Tensor]:
        """The bracket of the wanted rows of a chunk; their places.

        Args:
            x: the chunk, (N, *features).
            first: the number of its first row.
            attack: what is beside the proof.
            found: what that found at each of the radii.
            radii: rising.
        """
        places = torch.tensor(
            [row - first for row in self.wanted if first <= row < first + len(x)], dtype=torch.int64
        )
        if not len(places):
            return None, places
        try:
            own = places.to(x.device)
            return self._bracket(x[own], attack, [replace(part, x=part.x[own]) for part in found], radii), places
        except ContradictionError as error:
            self.reason, self.withdrawn = f"It was withdrawn: {error}.", True
            warnings.warn(f"the certificate was withdrawn: {error}", stacklevel=2)
        except InputError as error:
            self.reason = f"No sound method applies: {error}."
        except Exception as error:  # whatever stops a proof must not stop the audit
            self.reason = f"The certificate failed with {type(error).__name__}: {error}."
        self.reason = self.reason.replace("..", ".")
        self.wanted = []
        return None, places[:0]

    def _bracket(
        self, x: Tensor, attack: Attack, found: Sequence[AttackResult], radii: Sequence[float]
    ) -> Bracket:
        certificate = self._search(x)
        exact = judged_in_float64(self.model, x, attack, found, reach=self.reach, radii=radii)
        if certificate.method != "additive" and quick_at_radii(self.model, x, self.explainer, self.reach):
            points = torch.stack([part.x for part in exact])
            at_radii = certify_within(
                self.model,
                x,
                self.k,
                reach=self.reach,
                explainer=self.explainer,
                radii=radii,
                budget=0,
                points=points,
            )
            certificate = larger(certificate, at_radii, torch.arange(len(x), device=x.device))
        return assembled(
            certificate, exact, radii, attack=named(attack), threat=self.reach.threat, prediction="kept"
        )

    def _search(self, x: Tensor) -> Certificate:
        # both ends of the bracket are about one threat
        return certify_within(self.model, x, self.k, reach=self.reach, explainer=self.explainer)


def _neurons(model: nn.Module, x: Tensor) -> int:
    """How many values the layers of a model give for one row x (1, *features)."""
    seen: list[int] = []

    def count(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            seen.append(output.numel())

    # hooks of the model itself would be run by other threads as well
    own = twin(model)
    leaves = [
        module
        for module in own.modules()
        # those of TorchScript take no hooks, and are not certified either
        if not isinstance(module, torch.jit.ScriptModule) and not any(True for _ in module.children())
    ]
    handles = [module.register_forward_hook(count) for module in leaves]
    try:
        forward(own, x)
    finally:
        for handle in handles:
            handle.remove()
    return max(sum(seen), 1)
