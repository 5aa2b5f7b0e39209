"""The benchmark's commands are part of the command line, whichever of the two is imported first."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("first", ["r2et_bench.cli", "r2et.cli"])
def test_the_command_is_there_whatever_is_imported_first(first):
    code = f"import {first}\nfrom r2et.cli import main\nmain(['bench', '--help'])"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert all(word in done.stdout for word in ("run", "table", "figure"))
