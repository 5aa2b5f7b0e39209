"""The certificate of an audit: for as many rows as the size of the network allows, or a sentence on why not."""

import torch
from torch import Tensor, nn

from r2et.certificates import Certificate
from r2et.certificates.choice import certify_within
from r2et.domain import Reach
from r2et.enclosure.size import Size
from r2et.errors import InputError
from r2et.explainers import ColumnEffects, Explainer
from r2et.numerics.autograd import forward
from r2et.numerics.memory import MOST_BYTES, in_gigabytes
from r2et.numerics.twins import twin

#: features x neurons of a network: up to CHEAP every row is certified, above DEAR none (it takes about a minute),
#: and in between as many rows as TOTAL allows
CHEAP, TOTAL, DEAR = 2**12, 2**22, 2**20


class Certifier:
    """Certifies chunks of rows, and remembers why it could not.

    Attributes:
        wanted: numbers of the rows that are certified, rising, spread evenly over all rows.
        reason: why there is no certificate, or not one of all rows; "" = there is one of all rows.
    """

    def __init__(
        self, model: nn.Module, x: Tensor, k: int, explainer: Explainer, *, reach: Reach, wanted: bool
    ) -> None:
        self.model, self.k, self.explainer, self.reach = model, k, explainer, reach
        self.wanted: list[int] = []
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

    def __call__(self, x: Tensor, first: int) -> tuple[Certificate | None, Tensor]:
        """The certificate of the wanted rows of a chunk x whose first row has the number `first`; their places."""
        places = torch.tensor(
            [row - first for row in self.wanted if first <= row < first + len(x)], dtype=torch.int64
        )
        if not len(places):
            return None, places
        try:
            rows = x[places.to(x.device)]
            # both ends of the bracket are about one threat
            return certify_within(self.model, rows, self.k, reach=self.reach, explainer=self.explainer), places
        except InputError as error:
            self.reason = f"No sound method applies: {error}."
        except Exception as error:  # whatever stops a proof must not stop the audit
            self.reason = f"The certificate failed with {type(error).__name__}: {error}."
        self.reason = self.reason.replace("..", ".")
        self.wanted = []
        return None, places[:0]


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
