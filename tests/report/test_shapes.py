import pytest
import torch

from r2et.errors import InputError
from r2et.report import shape_functions

GRID = torch.linspace(-1, 1, 5)


def test_every_column_has_a_panel_on_one_scale():
    shapes = {"age": (GRID, 3 * GRID), "pay": (GRID, GRID**2), "job": {"cook": 0.5, "nurse": -0.5}}
    figure = shape_functions(shapes, title="people", ylabel="log-odds")
    assert [axis.get_title() for axis in figure.axes] == ["age", "pay", "job"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim() == figure.axes[2].get_xlim()
    low, high = figure.axes[0].get_ylim()
    assert low < -3
    assert high > 3


def test_curves_are_centred_on_the_rows_that_occur():
    rows = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    figure = shape_functions({"age": (GRID, GRID)}, rows={"age": rows})
    drawn = figure.axes[0].lines[1].get_ydata()
    assert drawn.tolist() == pytest.approx((GRID - 1 / 3).tolist())
    (ticks,) = [line for line in figure.axes[0].lines if line.get_gid() == "rows"]
    assert ticks.get_xdata().tolist() == [-1.0, 1.0]


def test_constant_shapes_are_drawn(tmp_path):
    figure = shape_functions({"age": (GRID, 0 * GRID)})
    figure.savefig(tmp_path / "shapes.png")
    assert (tmp_path / "shapes.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "empty"),
        ({"age": GRID}, r"'age'.*\(grid, values\)"),
        ({"age": (GRID, GRID[:3])}, r"\(5,\) and \(3,\)"),
        ({"age": (GRID, GRID * float("nan"))}, "NaN"),
    ],
)
def test_bad_shapes(shapes, message):
    with pytest.raises(InputError, match=message):
        shape_functions(shapes)
