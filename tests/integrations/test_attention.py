"""A tabular net of feature tokens and attention: audited, and hardened by retraining."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import r2et
from r2et.integrations import penalty
from tests.integrations.table import OBJECTIVE, rows


class FeatureTokens(nn.Module):
    """Each feature is a token; attention mixes them; the mean token is classified."""

    def __init__(self, features: int = 6, width: int = 8) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(features, width))
        self.shift = nn.Parameter(torch.zeros(features, width))
        self.mix = nn.TransformerEncoderLayer(width, 2, 16, activation=nn.functional.softplus, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.mix(x[:, :, None] * self.scale + self.shift).mean(1))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return FeatureTokens()


def test_the_usual_kernel_is_found_out_and_the_math_kernel_repairs_it(model):
    x, _ = rows(8)
    (finding,) = [f for f in r2et.validate.check(model.eval(), x, k=2).findings if f.code == "attention"]
    assert finding.severity == "error"
    assert "SDPBackend.MATH" in finding.repair
    with sdpa_kernel(SDPBackend.MATH):
        assert r2et.validate.check(model, x, k=2).ok


def test_the_penalty_chooses_the_kernel_by_itself(model):
    x, y = rows(8)
    penalty(OBJECTIVE, model, x).total.backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters() if weight.grad is not None)
    with pytest.raises(RuntimeError, match="flash_attention"):
        OBJECTIVE(model.eval(), x, y).backward()


def test_retraining_makes_the_explanations_more_stable(model):
    x, y = rows(96)
    parts = (x[:64], y[:64]), (x[64:], y[64:])
    objective = r2et.objectives.R2ET(k=2, gap=0.5, curvature=0.5, scale_free=True)
    with sdpa_kernel(SDPBackend.MATH):
        r2et.fit(
            model, *parts, settings=r2et.training.Settings(epochs=8, batch_size=64, lr=1e-2, accelerator="cpu")
        )
        hardened = copy.deepcopy(model)
        retraining = r2et.training.Retraining(model, k=2, min_precision=0.0, max_auc_drop=1.0)
        r2et.fit(
            hardened,
            *parts,
            objective,
            settings=r2et.training.Settings(epochs=12, batch_size=64, lr=1e-2, accelerator="cpu"),
            retraining=retraining,
        )
        before, after = (
            float(r2et.thickness(net.eval(), x, 2, generator=torch.Generator().manual_seed(0)).mean())
            for net in (model, hardened)
        )
        audit = r2et.audit(hardened, x[:6], y[:6], k=2, radii=(0.3,), budget="fast", steps=2)
    assert after > before
    assert audit.rows == 6
