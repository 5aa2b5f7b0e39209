"""Pictures of explanations, from arrays alone: nothing here knows a model. Needs matplotlib (`r2et[plots]`).

Every function returns a matplotlib Figure; it neither shows it nor writes a file.
"""

from r2et.report.connectome import connectome_circle, connectome_matrix, lobes
from r2et.report.magnitude import magnitude_by_rank
from r2et.report.pictures import saliency_grid, saliency_pair

__all__ = [
    "connectome_circle",
    "connectome_matrix",
    "lobes",
    "magnitude_by_rank",
    "saliency_grid",
    "saliency_pair",
]
