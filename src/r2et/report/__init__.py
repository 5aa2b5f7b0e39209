"""Reports and pictures, from audits, numbers and names: nothing here knows a model.

`write` makes the HTML report of one or several audits. Every other function returns a matplotlib Figure, needs
matplotlib (`r2et[plots]`), and neither shows it nor writes a file.
"""

from r2et.report.connectome import connectome_circle, connectome_matrix, lobes
from r2et.report.magnitude import magnitude_by_rank
from r2et.report.page import render, write
from r2et.report.pictures import saliency_grid, saliency_pair
from r2et.report.shapes import shape_functions

__all__ = [
    "connectome_circle",
    "connectome_matrix",
    "lobes",
    "magnitude_by_rank",
    "render",
    "saliency_grid",
    "saliency_pair",
    "shape_functions",
    "write",
]
