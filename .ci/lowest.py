"""Print the lowest versions that pyproject.toml claims, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]


def lowest(requirements: list[str]) -> list[str]:
    """`name>=version` as `name==version`; what has no lower bound is left to pip.

    >>> lowest(["torch>=2.6", "r2et[plots]", "optuna>=4,<6"])
    ['torch==2.6', 'optuna==4']
    """
    bounds = (re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", requirement) for requirement in requirements)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


if __name__ == "__main__":
    extras = [entry for entries in PROJECT["optional-dependencies"].values() for entry in entries]
    print("\n".join(lowest([*PROJECT["dependencies"], *extras])))
