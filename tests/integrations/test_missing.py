"""The libraries are optional: r2et.integrations does without them, and each module says what to install."""

import subprocess
import sys

CODE = """
import importlib, sys
import r2et.integrations

libraries = ("lightning", "skorch", "mlflow", "accelerate")
print([name for name in libraries if name in sys.modules])
for module, library in (("lightning", "lightning.pytorch"), ("skorch", "skorch"), ("mlflow", "mlflow")):
    sys.modules[library] = None
    try:
        importlib.import_module(f"r2et.integrations.{module}")
    except ImportError as error:
        print(error)
"""


def test_missing_libraries():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[]",
        "r2et.integrations.lightning needs Lightning: pip install lightning",
        "r2et.integrations.skorch needs skorch: pip install skorch",
        "r2et.integrations.mlflow needs MLflow: pip install mlflow-skinny",
    ]
