"""People's own images: one sub-folder per class."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from r2et.data.base import Dataset
from r2et.data.catalogue import Info
from r2et.data.folders import Groups, classes_by_folder, existing_folder, files_in, groups_of, number_classes
from r2et.data.images import Pixels, image_dataset
from r2et.errors import DataError, InputError
from r2et.files.unpacking import allowed, too_large
from r2et.numerics.values import check_choice, check_count, check_seed, check_text, is_whole, quoted
from r2et.tables.splits import FRACTIONS, check_three_fractions, split_groups

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
# Pillow reads more, some of it by starting other programs.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MODES = {"grey": "L", "rgb": "RGB"}
# 16-bit and floating-point images: Pillow would cut off what does not fit in 8 bits
DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")


def load_images(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    colour: str = "rgb",
    fractions: Sequence[float] = FRACTIONS,
    groups: Groups | None = None,
    seed: int = 0,
    k: int = 50,
    name: str | None = None,
) -> Dataset:
    """A data set from images in one sub-folder per class (PNG, JPEG, BMP, GIF, TIFF, WebP, PGM, PPM; 8 bits).

    Channels are standardised on train; the domain is that of pixels from 0 to 1.

    Args:
        folder: the folder of the class folders; what lies deeper belongs to the class as well.
        size: resize to a square, or to (height, width); None: all images must be of one size.
        colour: "rgb" or "grey".
        fractions: of the images in train, validation and test.
        groups: what must not be torn apart by the split, such as the images of one patient: a function of the path
            inside the folder, or a CSV file with the columns `file` and `group`.
        seed: which split.
        k: how many salient features to look at.
        name: of the data set; None: that of the folder.

    Returns:
        Splits with x (N, 3 or 1, height, width) float32 and y (N,) int64; classes in alphabetical order.

    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> scratch = TemporaryDirectory()
    >>> folder = Path(scratch.name)
    >>> for kind in ("cat", "dog"):
    ...     (folder / kind).mkdir()
    ...     for number in range(20):
    ...         Image.new("RGB", (9, 8), (number, 0, 0)).save(folder / kind / f"{number}.png")
    >>> images = load_images(folder, size=4, k=5)
    >>> images.train.x.shape, images.class_names
    (torch.Size([28, 3, 4, 4]), ('cat', 'dog'))
    >>> scratch.cleanup()
    """
    height_width = _check_size(size)
    check_choice("colour", colour, MODES)
    check_three_fractions(fractions)
    check_seed(seed)
    check_count("k", k)
    if name is not None:
        check_text("name", name)
    root = existing_folder(folder)
    files = files_in(root, SUFFIXES, ignore=[Path(groups)] if isinstance(groups, str | Path) else [])
    numbers, class_names = number_classes(classes_by_folder(root, files))
    y = np.array(numbers, dtype=np.int64)
    rows = split_groups(y, groups_of(groups, files), fractions=fractions, seed=seed, what=str(root))
    pixels = read_images([root / file for file in files], height_width, MODES[colour])
    info = Info(
        name=name or root.resolve().name,
        description=f"images in {root.resolve().name}",
        citation="",
        licence="",
        rows=len(y),
        features=pixels[0].size,
        classes=len(class_names),
        k=k,
    )
    return image_dataset(info, [(pixels[part], y[part]) for part in rows], class_names)


def read_images(paths: Sequence[Path], size: tuple[int, int] | None, mode: str) -> Pixels:
    """Images of one size (N, C, H, W), grey values 0..255."""
    first = _read(paths[0], size, mode)
    pixels = np.empty((len(paths), *first.shape), dtype=np.uint8)
    for number, path in enumerate(paths):
        image = _read(path, size, mode)
        if image.shape != first.shape:
            raise DataError(
                f"{path} has {image.shape[1]} x {image.shape[2]} pixels, {paths[0]} has {first.shape[1]} x "
                f"{first.shape[2]}: pass size=(height, width) to make them equal"
            )
        pixels[number] = image
    return pixels


def _read(path: Path, size: tuple[int, int] | None, mode: str) -> Pixels:
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=FORMATS) as opened:
            if opened.width * opened.height * len(opened.getbands()) > allowed(path.stat().st_size):
                raise too_large(path, f"{opened.width} x {opened.height} pixels")
            if opened.mode in DEEP:
                raise DataError(
                    f"{path} has more than 8 bits a pixel (mode {opened.mode}): scale it to 0..255 and save "
                    "it again"
                )
            # cameras store how they were held
            image = ImageOps.exif_transpose(opened).convert(mode)
            if size is not None:
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except DataError:
        raise
    # decoders of damaged files raise nearly anything
    except Exception as error:
        raise DataError(f"{path} cannot be read as an image: {error}") from error
    values = np.asarray(image, dtype=np.uint8)
    return values[None] if values.ndim == 2 else values.transpose(2, 0, 1)


def _check_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    pair: tuple[int, ...] = (size, size) if is_whole(size) else ()  # type: ignore[assignment]  # checked just now
    pair = tuple(size) if isinstance(size, tuple | list) else pair
    if len(pair) != 2:
        raise InputError(f"size must be one number or (height, width), got {quoted(size)}")
    for side, value in zip(("height", "width"), pair, strict=True):
        check_count(side, value)
    return pair[0], pair[1]
