"""OCT: optical coherence tomography of the retina, diabetic macular oedema against normal."""

import torch

from r2et.data.arrays import check_classes, check_pixels, read_npz
from r2et.data.base import Dataset
from r2et.data.catalogue import Info, Request, register
from r2et.data.images import Pixels, image_dataset
from r2et.data.sources import ManualFile
from r2et.errors import DataError, InputError
from r2et.numerics.values import check_count
from r2et.tables.splits import split_groups

FULL_SIZE = 128
SCANS = ManualFile(
    "kermany_oct_128_dme_vs_normal.npz",
    "It holds x uint8 (N, 128, 128), y (0 normal, 1 DME) and patient (N,), made from the scans of Kermany et al. "
    "at https://data.mendeley.com/datasets/rscbjbr9sj (their names are CLASS-patient-number.jpeg). Or unpack "
    "them, keep the folders NORMAL and DME, and call r2et.data.load_images(folder, size=128, colour='grey', "
    "groups=lambda path: path.stem.rsplit('-', 1)[0]).",
)


@register(
    Info(
        name="oct",
        description="Retinal OCT scans, diabetic macular oedema against normal, split by patient",
        citation="Kermany et al. Identifying medical diagnoses and treatable diseases by image-based deep "
        "learning. Cell 172, 2018",
        licence="CC BY 4.0",
        rows=1000,
        features=FULL_SIZE**2,
        classes=2,
        files=(SCANS,),
        options={"size": FULL_SIZE},
        k=50,
        kind="oct",
    )
)
def oct_scans(request: Request) -> Dataset:
    """70:15:15 by patient, never by image; standardised on train, moved in training. `size`: at most 128."""
    path, size = request.paths[0], request.options["size"]
    check_count("size", size)
    if size > FULL_SIZE:
        raise InputError(f"size must be at most {FULL_SIZE}, the size of the scans, got size={size}")
    arrays = read_npz(path, ("x", "y", "patient"))
    pixels = check_pixels(path, "x", arrays["x"], (FULL_SIZE, FULL_SIZE))
    y = check_classes(path, "y", arrays["y"], len(pixels), 2)
    patient = arrays["patient"]
    if patient.shape != y.shape:
        raise DataError(
            f"{path}: patient must name one patient a scan, got shape {patient.shape} for {len(y)} scans"
        )
    rows = split_groups(y, patient, seed=request.seed, what="oct")
    small = downsample(pixels[:, None], size)
    return image_dataset(
        request.info, [(small[part], y[part]) for part in rows], ("normal", "DME"), shift=size // 10
    )


def downsample(pixels: Pixels, size: int) -> Pixels:
    """Images (N, 1, H, W) as (N, 1, size, size): means over areas, rounded to whole grey values.

    >>> import numpy as np
    >>> downsample(np.array([[[[0, 4], [8, 12]]]], dtype=np.uint8), 1).tolist()
    [[[[6]]]]
    """
    if pixels.shape[-2:] == (size, size):
        return pixels
    means = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(pixels).float(), size)
    return means.round().to(torch.uint8).numpy()
