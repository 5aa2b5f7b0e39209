"""The commands of the documentation, as a newcomer types them: from a CSV to a hardened model and a comparison."""

import re
import shlex
from pathlib import Path

import pytest

from r2et.attacks import worst_case
from r2et.cli import main
from tests.cli.test_own_table import people

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "audit-any-model.md"


def commands() -> list[str]:
    """The first block of the page that is typed into a shell."""
    block = re.search(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    return block.group(1).strip().splitlines()


@pytest.mark.slow  # test_own_table.py goes the same way with less training, test_docs.py reads the commands
def test_five_commands_are_enough(tmp_path, monkeypatch, capsys):
    install, *rest = commands()
    assert install == "pip install r2et"
    assert len(rest) <= 4
    monkeypatch.chdir(tmp_path)
    # the commands are those of the page; how long WorstCase searches is not what is tested
    for table in (worst_case.EFFORT, worst_case.BETAS):
        monkeypatch.setitem(table, "standard", table["fast"])
    people(60).to_csv("people.csv", index=False)
    printed = []
    for command in rest:
        program, *arguments = shlex.split(command)
        assert program == "r2et"
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        out, error = capsys.readouterr()
        assert not caught.value.code, (command, error)
        printed.append(out)
    assert Path("report.html").stat().st_size > 10_000
    text = Path("compared.html").read_text()
    assert "plain" in text
    assert "hardened" in text
    assert "12 rows that training did not see" in printed[1]
    assert "Under the worst case found" in printed[3]
