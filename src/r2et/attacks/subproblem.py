"""The subproblem of the trust-region attack: a second-order cone program, solved by cvxpy and Clarabel."""

import importlib
import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from r2et.errors import InputError

Array = NDArray[np.float64]
#: of the interior-point solver
TOLERANCE = 1e-9
#: a constraint binds when its multiplier is above this
BINDING = 1e-6
#: at most, to find the shortest step; two or three are usual
NEWTON_STEPS = 10
#: steps of more dimensions are left as the solver gives them: dense algebra would cost more than the solver
LARGEST = 256
#: the share of the margin of the predicted class that one step may use up
MARGIN_SPENT = 0.9


class Local(NamedTuple):
    """One row for the solver, float64: m pairs, C classes, d features that can move; f is in units of eps_f."""

    pairs: NDArray[np.int64]  # (2, m)
    valid: NDArray[np.bool_]  # (m,)
    gaps: Array  # (m,)
    slopes: Array  # of the gaps, (m, d)
    change: Array  # f - f0, (C,)
    jacobian: Array  # of f, (C, d)
    violation: float
    margin: float  # of the predicted class over the next one, above zero
    margin_slope: Array  # (d,)
    offset: Array  # x - x0, (d,)
    radius: float
    bounds: tuple[Array, Array] | None  # of the step, (d,) each


class Solution(NamedTuple):
    """Of the subproblem: the step (d,), the two parts of the objective, the multipliers of the pairs (m,)."""

    step: Array
    mu: float
    nu: float
    multipliers: Array


def subproblem(local: Local, active: NDArray[np.bool_], epsilon: float, delta: float) -> Solution | None:
    """Minimise nu + mu over steps d (TR-MOO of Sec. 5, corrected); None if the solver fails.

    |e + g_l . d| <= mu for the active pairs, e = epsilon - v(x); ||f - f0 + J d|| <= eps_f (1 + nu), nu >= 0;
    ||d|| <= delta; ||x - x0 + d|| <= radius; the bounds, if there are any; and the linearised margin of the
    predicted class keeps a tenth of what it is.
    """
    # solved for d / delta, (e - mu) / unit and nu / unit: the solver sees numbers of order one
    steepest = delta * float(np.linalg.norm(local.slopes[active], axis=1).max())
    unit = max(min(epsilon, steepest), 1e-12 * epsilon)
    e = epsilon - local.violation
    slopes = np.where(active[:, None], local.slopes, 0.0) * (delta / unit)
    response, offset = local.jacobian * delta, local.offset / local.radius
    guard = local.margin_slope * delta
    scale = max(float(np.linalg.norm(guard)), local.margin, 1e-300)
    basis = np.eye(len(offset))
    if local.bounds is None:
        # nothing is gained by leaving the span of what the constraints see
        basis = np.linalg.qr(np.vstack([slopes, response, guard, offset]).T)[0]
    room = np.full(len(active), min(2 * e / unit, 4.0))  # beyond 2 it does not bind
    values = {
        "above": np.where(active, 0.0, room),
        "below": room,
        "slopes": slopes @ basis,
        "guard": guard @ basis / scale,
        "margin": np.array(MARGIN_SPENT * local.margin / scale),
        "change": local.change,
        "response": response @ basis,
        "offset": offset @ basis,
        "share": np.array(delta / local.radius),
        "unit": np.array(unit),
    }
    if local.bounds is not None:
        # bounds beyond the trust radius do not bind
        values |= {"low": np.maximum(local.bounds[0] / delta, -2), "high": np.minimum(local.bounds[1] / delta, 2)}
    small = len(values["offset"]) <= LARGEST
    optimum = _shortest(values, active) if small else None
    if optimum is None:
        optimum = _solve(values)
        optimum = _polish(values, *optimum) if small and optimum is not None else optimum
    if optimum is None:
        return None
    point, multipliers = optimum
    pairs = multipliers[: len(active)] + multipliers[len(active) : 2 * len(active)]
    return Solution(
        step=delta * (basis @ point[:-2]),
        mu=e - unit * float(point[-2]),
        nu=unit * float(point[-1]),
        multipliers=np.where(active, pairs, 0.0),
    )


def _constraints(values: dict[str, Array], point: Array, multipliers: Array) -> tuple[Array, Array, Array]:
    """What must be >= 0 at a point (step, e - mu, nu), its Jacobian, and minus its Hessian times the multipliers.

    In the order of the constraints in `_problem`.
    """
    step, reduction, nu = point[:-2], point[-2], point[-1]
    pairs, size = values["slopes"].shape
    fall, zero, identity = -values["slopes"] @ step, np.zeros(size), np.eye(size)
    cones: tuple[tuple[Array, Array, float], ...] = (
        (values["change"], values["response"], float(values["unit"])),
        (zero, identity, 0.0),
        (values["offset"], values["share"] * identity, 0.0),
    )
    lengths, normals, curvature = [], [zero, values["guard"]], np.zeros((size + 2, size + 2))
    for number, (start, matrix, _) in enumerate(cones, start=2 * pairs + 2):
        vector = start + matrix @ step
        lengths.append(max(float(np.linalg.norm(vector)), 1e-12))
        normals.append(-matrix.T @ (vector / lengths[-1]))
        if len(multipliers):
            bend = matrix.T @ matrix - np.outer(normals[-1], normals[-1])
            curvature[:size, :size] += multipliers[number] / lengths[-1] * bend
    growth = np.array([growth for _, _, growth in cones])
    slacks = [
        values["above"] + fall - reduction,
        values["below"] - fall - reduction,
        [nu, values["margin"] + values["guard"] @ step],
        1 + growth * nu - lengths,
    ]
    by_step = [-values["slopes"], values["slopes"], np.array(normals)]
    if "low" in values:
        slacks += [step - values["low"], values["high"] - step]
        by_step += [identity, -identity]
    rows = np.zeros((sum(map(len, slacks)), size + 2))
    rows[:, :size] = np.concatenate(by_step)
    rows[: 2 * pairs, size] = -1
    rows[2 * pairs : 2 * pairs + 5, size + 1] = 1, 0, *growth
    return np.concatenate(slacks), rows, curvature


def _newton(
    values: dict[str, Array],
    point: Array,
    multipliers: Array,
    binding: NDArray[np.bool_],
    *,
    goal: Array,
    weight: float,
) -> tuple[Array, Array]:
    """A Newton step for the minimum of goal . p + weight ||p||^2 / 2 where some constraints are equalities."""
    slacks, rows, curvature = _constraints(values, point, multipliers)
    active = rows[binding]
    corner = curvature + weight * np.eye(len(point))
    matrix = np.block([[corner, -active.T], [active, np.zeros((len(active), len(active)))]])
    # for the new point and the change of the multipliers: those of redundant constraints stay positive
    force = curvature @ point - goal + multipliers[binding] @ active
    answer = np.linalg.lstsq(matrix, np.append(force, active @ point - slacks[binding]), rcond=1e-10)[0]
    raised = np.where(binding, multipliers, 0.0)
    raised[binding] += answer[len(point) :]
    return answer[: len(point)], raised


def _shortest(values: dict[str, Array], active: NDArray[np.bool_]) -> tuple[Array, Array] | None:
    """The shortest step that lowers every gap by all of e, if one is allowed: then mu = nu = 0 is optimal.

    It is one of many optimal steps, and an interior-point method would stop anywhere among them.
    """
    pairs, size = values["slopes"].shape
    point = np.zeros(size + 2)
    slacks, _, _ = _constraints(values, point, np.zeros(0))
    multipliers, binding = np.zeros(len(slacks)), np.zeros(len(slacks), dtype=bool)
    binding[: 2 * pairs], binding[2 * pairs] = np.tile(active, 2), True
    for _ in range(NEWTON_STEPS):
        point, multipliers = _newton(values, point, multipliers, binding, goal=np.zeros(size + 2), weight=1.0)
        slacks, _, _ = _constraints(values, point, np.zeros(0))
        violated = slacks < -TOLERANCE
        if not violated.any():
            return point, np.append(np.tile(active, 2) / (2 * active.sum()), np.zeros(len(slacks) - 2 * pairs))
        # the gaps cannot fall that far, or not within the trust radius
        if violated[: 2 * pairs].any() or violated[2 * pairs + 3]:
            return None
        binding |= violated
    return None


def _polish(values: dict[str, Array], point: Array, multipliers: Array) -> tuple[Array, Array]:
    """Newton steps on the equations of the constraints that bind: the solver's last digits are noise."""
    goal = np.append(np.zeros(len(point) - 2), (-1, 1))

    def residual(at: Array, by: Array) -> float:
        slacks, rows, _ = _constraints(values, at, np.zeros(0))
        return float(max(np.abs(goal - by @ rows).max(), np.abs(by * slacks).max(), -slacks.min(), -by.min()))

    first, binding = (point, np.maximum(multipliers, 0)), multipliers > BINDING
    for _ in range(2):
        point, multipliers = _newton(values, point, multipliers, binding, goal=goal, weight=0.0)
    return (point, multipliers) if residual(point, multipliers) <= max(residual(*first), TOLERANCE) else first


def _solve(values: dict[str, Array]) -> tuple[Array, Array] | None:
    """The interior-point solution and its multipliers, in the order of `_constraints`."""
    pairs, size = values["slopes"].shape
    cvxpy, problem, parameters, variables = _problem(pairs, size, len(values["change"]), bounded="low" in values)
    for name, value in values.items():
        parameters[name].value = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an inaccurate solution: the ratio test judges every step
        try:
            options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), TOLERANCE)
            problem.solve(solver="CLARABEL", warm_start=False, **options)
        except cvxpy.SolverError:
            return None
    if any(variable.value is None for variable in variables):
        return None
    point = np.concatenate([np.atleast_1d(variable.value) for variable in variables])
    return point, np.concatenate([np.atleast_1d(constraint.dual_value) for constraint in problem.constraints])


def load_solver() -> Any:
    """The module cvxpy; an optional dependency that only this attack needs."""
    try:
        importlib.import_module("clarabel")
        return importlib.import_module("cvxpy")
    except ImportError as error:
        raise InputError(f"TrustRegion needs cvxpy and clarabel ({error}): pip install r2et[solvers]") from error


@lru_cache(maxsize=16)
def _problem(pairs: int, size: int, classes: int, *, bounded: bool) -> tuple[Any, Any, dict[str, Any], list[Any]]:
    """The problem of one shape, compiled once and solved again with other values of its parameters."""
    cp = load_solver()
    shapes: dict[str, tuple[int, ...]] = {
        "above": (pairs,),
        "below": (pairs,),
        "slopes": (pairs, size),
        "guard": (size,),
        "change": (classes,),
        "response": (classes, size),
        "offset": (size,),
    }
    if bounded:
        shapes |= {"low": (size,), "high": (size,)}
    p = {name: cp.Parameter(shape) for name, shape in shapes.items()}
    p |= {name: cp.Parameter(nonneg=True) for name in ("margin", "share", "unit")}
    step, reduction, nu = cp.Variable(size), cp.Variable(), cp.Variable()
    fall = -p["slopes"] @ step
    constraints = [
        reduction <= p["above"] + fall,
        reduction <= p["below"] - fall,
        nu >= 0,
        -p["margin"] <= p["guard"] @ step,
        cp.norm(p["change"] + p["response"] @ step) <= 1 + p["unit"] * nu,
        cp.norm(step) <= 1,
        cp.norm(p["offset"] + p["share"] * step) <= 1,
    ]
    if bounded:
        constraints += [p["low"] <= step, step <= p["high"]]
    return cp, cp.Problem(cp.Minimize(nu - reduction), constraints), p, [step, reduction, nu]
