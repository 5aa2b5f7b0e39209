"""`r2et data list` and `r2et data fetch`."""

from typing import Annotated

import typer

from r2et.cli.common import AsJson, interactive, print_json, print_table


def data_list(as_json: AsJson = False) -> None:
    """Show the data sets that can be loaded.

    Example: r2et data list --json
    """
    from r2et import data

    infos = [data.describe(name) for name in data.names()]
    if as_json:
        print_json(
            [
                {
                    "name": info.name,
                    "rows": info.rows,
                    "features": info.features,
                    "classes": info.classes,
                    "k": info.k,
                    "targets": list(info.targets),
                    "licence": info.licence,
                    "description": info.description,
                }
                for info in infos
            ]
        )
        return
    rows = [
        [info.name, str(info.rows), str(info.features), str(info.classes), str(info.k), info.licence]
        for info in infos
    ]
    print_table("Data sets", ["name", "rows", "features", "classes", "k", "licence"], rows)


def data_fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets to fetch.")], as_json: AsJson = False
) -> None:
    """Find the files of data sets, downloading and checking what is missing.

    Looks in the folder that R2ET_DATA names, then in the cache, then at the public source.

    Example: r2et data fetch adult bank
    """
    from r2et import data

    files = {name: [str(path) for path in data.fetch(name, progress=interactive(as_json))] for name in names}
    if as_json:
        print_json(files)
        return
    for name, paths in files.items():
        typer.echo(f"{name}: {', '.join(paths) if paths else 'comes with scikit-learn'}")
