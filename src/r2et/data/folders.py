"""Files in folders by class, and tables that say what a file belongs to."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from r2et.errors import DataError, InputError
from r2et.files.reading import regular_file
from r2et.numerics.values import check_path
from r2et.tables.files import read_texts

#: what says which group a file belongs to: a function of its path inside the folder, or a CSV file with the
#: columns `file` and `group`
Groups = Callable[[Path], object] | str | Path


def existing_folder(folder: str | Path) -> Path:
    """A folder that is there."""
    check_path("folder", folder)
    path = Path(folder).expanduser()
    if not os.path.isdir(path):
        raise DataError(f"{str(folder)!r} is not a folder")
    return path


def files_in(folder: Path, suffixes: Sequence[str], ignore: Sequence[Path] = ()) -> list[Path]:
    """All files below a folder, as sorted paths inside it; hidden ones are passed over, others refused."""
    skipped = {path.resolve() for path in ignore}
    files = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if os.path.isdir(path) or any(part.startswith(".") for part in inside.parts):
            continue
        if regular_file(path).resolve() in skipped:
            continue
        if path.suffix.lower() not in suffixes:
            raise DataError(f"{path} is not one of {', '.join(suffixes)}: convert it, or move it elsewhere")
        files.append(inside)
    if not files:
        raise DataError(f"{folder} has no file with one of the endings {', '.join(suffixes)}")
    return files


def classes_by_folder(folder: Path, files: Sequence[Path]) -> list[str]:
    """The class of each file: the first folder on its path."""
    for file in files:
        if len(file.parts) < 2:
            raise DataError(
                f"{folder / file} lies in no class: make one sub-folder a class in {folder} and move it there"
            )
    # an empty folder is a class that somebody forgot to fill
    used = {file.parts[0] for file in files}
    empty = [path.name for path in sorted(folder.iterdir()) if path.is_dir() and path.name[0] != "."]
    empty = [name for name in empty if name not in used]
    if empty:
        raise DataError(f"{folder / empty[0]} is a class without files: fill it or remove it")
    return [file.parts[0] for file in files]


def column_of(table: str | Path, column: str, files: Sequence[Path]) -> list[str]:
    """What a CSV file with the columns `file` and `column` says about each file."""
    path = Path(table).expanduser()
    frame = read_texts(path, ("file", column))
    twice = frame["file"][frame["file"].duplicated()]
    if len(twice):
        raise DataError(f"{twice.index[0]} is the second one about the file {twice.iloc[0]!r}")
    return values_of(dict(zip(frame["file"], frame[column], strict=True)), files, str(path))


def values_of(known: Mapping[str, str], files: Sequence[Path], source: str) -> list[str]:
    """The entry of each file, found by its path inside the folder."""
    missing = [file.as_posix() for file in files if file.as_posix() not in known]
    if missing:
        raise DataError(f"{source} says nothing about the file {missing[0]!r} ({len(missing)} such files)")
    return [str(known[file.as_posix()]) for file in files]


def groups_of(groups: Groups | None, files: Sequence[Path]) -> list[str] | None:
    """The group of each file, or None."""
    if groups is None:
        return None
    if isinstance(groups, str | Path):
        return column_of(groups, "group", files)
    if not callable(groups):
        raise InputError(f"groups must be a function of a path or a CSV file, got {type(groups).__name__}")
    group_names = [groups(file) for file in files]
    for file, group in zip(files, group_names, strict=True):
        if group is None:
            raise InputError(f"groups gave None for the file {file.as_posix()!r}: every file needs a group")
    return [str(group) for group in group_names]


def number_classes(values: Sequence[object]) -> tuple[list[int], tuple[str, ...]]:
    """Class numbers and names, in the order of whole numbers if all are, else of the alphabet.

    >>> number_classes(["10", "9", "10"])
    ([1, 0, 1], ('9', '10'))
    """
    from r2et.tables.labels import class_numbers

    texts = [str(value) for value in values]
    whole = all(text.lstrip("-").isdecimal() for text in texts)
    names = sorted(set(texts), key=int) if whole else sorted(set(texts))
    if len(names) < 2:
        raise DataError(f"two classes or more are needed, got only {', '.join(map(repr, names)) or 'none'}")
    numbers: list[int] = class_numbers(texts, names).tolist()
    return numbers, tuple(names)
