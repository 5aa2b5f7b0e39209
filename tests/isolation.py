"""What tests share although they should not: it is put back after each of them, so that their order is free."""

import copy
import importlib
import logging
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from r2et import registry as registry_module
from r2et.foreign import import_code

#: settings that a shell may hold for other work; a test that needs one sets it
FOREIGN = ("RAY_", "MLFLOW_", "MPLBACKEND", "MPLCONFIGDIR", "CUBLAS_WORKSPACE_CONFIG")
#: loaded before the first test, so that what a test registers in them can be told from what they hold
TABLES = ("r2et.enclosure.activations", "r2et.recipes", "r2et.training")
#: likewise, every name of each
REGISTRIES = (
    "r2et.attacks:ATTACKS",
    "r2et.data:DATA_SETS",
    "r2et.explainers:EXPLAINERS",
    "r2et.models:MODELS",
    "r2et.objectives:OBJECTIVES",
    "r2et_bench.studied:STUDIES",
)

Undo = Callable[[], Any]


@contextmanager
def isolated() -> Iterator[None]:
    """Whatever happens inside leaves the process as it was."""
    undo = [remember() for remember in SHARED]
    try:
        yield
    finally:
        for put_back in reversed(undo):
            put_back()


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if _has_devices():
        torch.manual_seed(seed)
    else:
        # without a device torch.manual_seed notes the whole stack for each kind of device there might be
        torch.default_generator.manual_seed(seed)


@cache
def _has_devices() -> bool:
    return torch.accelerator.is_available()


def random_states() -> Undo:
    python, numpy, ours = random.getstate(), np.random.get_state(), torch.get_rng_state()

    def put_back() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(ours)

    return put_back


def environment() -> Undo:
    before = dict(os.environ)

    def put_back() -> None:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if os.environ.get(name) != value})

    return put_back


def working_folder() -> Undo:
    before = Path.cwd()
    return lambda: os.chdir(before)


def torch_settings() -> Undo:
    # how to put back, and what
    settings: list[tuple[Callable[[Any], Any], Any]] = [
        (torch.set_default_dtype, torch.get_default_dtype()),
        (torch.set_num_threads, torch.get_num_threads()),
        (torch.set_grad_enabled, torch.is_grad_enabled()),
        (torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode()),
        (torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()),
        (torch.autograd.set_detect_anomaly, torch.is_anomaly_enabled()),
        (torch.set_default_device, None),
    ]

    def put_back() -> None:
        for put, value in settings:
            put(value)

    return put_back


def numpy_settings() -> Undo:
    errors = np.geterr()
    return lambda: np.seterr(**errors)


@cache
def _tables(loaded: int) -> list[dict[Any, Any]]:
    """Looked for again when more modules are loaded: it takes long for every test."""
    modules = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("r2et.")]
    values = [item for module in modules for item in module.items()]
    return [value for name, value in values if name.isupper() and isinstance(value, dict)]


def registries() -> Undo:
    """What has a name, and every table of constants of the library: activations, methods."""
    before = [(table, dict(table)) for table in _tables(len(sys.modules))]
    known = [(vars(registry), _copied(vars(registry))) for registry in registry_module._REGISTRIES.values()]
    loaded = set(sys.modules)

    def put_back() -> None:
        for state, old in known:
            late = {name: entry for name, entry in state["entries"].items() if _is_late(entry.thing, loaded)}
            state.update(_copied(old))
            state["entries"].update(late)
        for table, entries in before:
            if table != entries:
                table.clear()
                table.update(entries)

    return put_back


def _is_late(thing: Any, loaded: set[str]) -> bool:
    """Whether a module of the library registered it that was imported in the meantime: it will not do so again."""
    module = getattr(thing, "__module__", "")
    return module.startswith("r2et.") and module not in loaded


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    return {name: copy.copy(value) if isinstance(value, dict | set) else value for name, value in state.items()}


def imports() -> Undo:
    """Modules from a temporary folder go: another test may have others of the same name."""
    path, modules = list(sys.path), list(sys.modules)

    def put_back() -> None:
        sys.path[:] = path
        if len(sys.modules) > len(modules):
            _forget_temporary(sys.modules.keys() - set(modules))

    return put_back


def _forget_temporary(names: set[str]) -> None:
    temporary = str(Path(tempfile.gettempdir()).resolve())
    # a checkout and its environment may lie in such a folder themselves
    lasting = (str(Path(__file__).resolve().parent.parent), sys.prefix, sys.base_prefix)
    for name in names:
        file = str(getattr(sys.modules[name], "__file__", None))
        if file.startswith(temporary) and not file.startswith(lasting):
            del sys.modules[name]


def logging_levels() -> Undo:
    disabled = logging.root.manager.disable
    before = {log: (log.level, log.disabled, log.propagate) for log in _loggers()}

    def put_back() -> None:
        if logging.root.manager.disable != disabled:
            logging.disable(disabled)
        for log in _loggers():
            level, off, propagate = before.get(log, (log.level, log.disabled, log.propagate))
            log.disabled, log.propagate = off, propagate
            if log.level != level:
                log.setLevel(level)

    return put_back


def _loggers() -> list[logging.Logger]:
    known = list(logging.root.manager.loggerDict.values())
    return [logging.root, *(log for log in known if isinstance(log, logging.Logger))]


def drawing() -> Undo:
    before = dict.copy(sys.modules["matplotlib"].rcParams) if "matplotlib" in sys.modules else None

    def put_back() -> None:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
        if "matplotlib" in sys.modules:
            _put_back_drawing(before)

    return put_back


def _put_back_drawing(before: dict[str, Any] | None) -> None:
    import matplotlib as mpl

    wanted = dict.copy(mpl.rcParamsDefault) if before is None else before
    # as they are stored: to ask for the backend would start one
    now = dict.copy(mpl.rcParams)
    for name in wanted.keys() - {"backend", "backend_fallback"}:
        if now[name] != wanted[name]:
            mpl.rcParams[name] = wanted[name]


def tracking() -> Undo:
    """MLflow: no run, no experiment, no place of its own outlives a test; the environment is put back already."""

    def put_back() -> None:
        if "mlflow.tracking.fluent" not in sys.modules:
            return
        import mlflow
        from mlflow.tracking import fluent

        while mlflow.active_run() is not None:
            mlflow.end_run()
        mlflow.set_tracking_uri(None)
        mlflow.set_registry_uri(None)
        # MLflow has no public way to forget it
        fluent._active_experiment_id = None

    return put_back


def clusters() -> Undo:
    def put_back() -> None:
        if "ray" in sys.modules and sys.modules["ray"].is_initialized():
            sys.modules["ray"].shutdown()

    return put_back


#: the environment comes first, hence is put back last: what the others do to it goes too
SHARED: tuple[Callable[[], Undo], ...] = (
    environment,
    working_folder,
    random_states,
    torch_settings,
    numpy_settings,
    registries,
    imports,
    logging_levels,
    drawing,
    tracking,
    clusters,
)


def prepare() -> None:
    """Once per process: what tests rely on, whatever shell it was started from."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        del os.environ[name]
    os.environ["MPLBACKEND"] = "agg"
    for name in TABLES:
        importlib.import_module(name)
    for name in REGISTRIES:
        import_code(name).names()
