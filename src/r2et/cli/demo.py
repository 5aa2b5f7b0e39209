"""`r2et demo`."""

from pathlib import Path

import typer

from r2et.cli.common import AsJson, Output, Seed, check_folder, interactive, print_json, print_table


def demo(output: Output = Path("demo"), seed: Seed = 0, as_json: AsJson = False) -> None:
    """Train four models on scikit-learn's breast-cancer data, attack each, compare.

    Needs no network. Writes the models and `demo.json` to the output folder.

    Example: r2et demo --output demo
    """
    from r2et.cli.demonstration import run_demo

    check_folder(output)
    comparison = run_demo(output, seed, progress=interactive(as_json))
    if as_json:
        print_json(comparison)
        return
    columns = ["model", "AUC", "P@8 ER", "P@8 MSE", "thickness", "displaced", "time"]
    rows = [
        [
            row["title"],
            f"{row['auc']:.4f}",
            f"{100 * row['precision']['ERAttack']:.1f}",
            f"{100 * row['precision']['MSEAttack']:.1f}",
            f"{row['thickness']:.4f}",
            f"{row['displaced']:.2f} of 8",
            f"{row['seconds']:.0f} s",
        ]
        for row in comparison["models"]
    ]
    print_table(
        f"breast-cancer, {comparison['rows']} test inputs, attack radius {comparison['radius']:g}", columns, rows
    )
    typer.echo(comparison["reading"])
    typer.echo(f"\nModels and figures are in {output}/")
