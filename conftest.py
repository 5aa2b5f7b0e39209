"""Tests and examples run in random order; each finds the process as the first did, with its own random numbers.

Random numbers follow from the seed of the run and the name of the test (or of the fixture that tests share), so
that a test draws the same ones alone, in any order and in any process.
"""

import gc
import zlib

import pytest
from _pytest.doctest import DoctestItem

from tests.isolation import isolated, prepare, random_states, seed_everything

pytest_plugins = ["pytester"]


def _seed(config: pytest.Config) -> int:
    """The seed of the run; 0 if pytest-randomly is switched off."""
    seed = config.getoption("randomly_seed", 0)
    return seed if isinstance(seed, int) else 0


def _own_seed(config: pytest.Config, name: str) -> int:
    return _seed(config) + zlib.crc32(name.encode(errors="surrogatepass"))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for everything, hypothesis too."""
    gc.disable()
    prepare()
    from hypothesis import settings

    # on a CI machine hypothesis draws the same examples whatever the seed
    settings.register_profile("seeded", settings.get_profile("ci"), derandomize=False)
    settings.load_profile("seeded")
    if config.getoption("hypothesisseed", None) is None:
        from hypothesis import core

        # what --hypothesis-seed does: one seed is enough to repeat a run
        core.global_force_seed = _seed(config)


def _how_to_repeat(config: pytest.Config) -> str:
    return f'random seed {_seed(config)}; to repeat this run: make test ARGS="--randomly-seed={_seed(config)}"'


def pytest_collection_finish() -> None:
    """What was imported and collected stays: to look through all of it for garbage takes a tenth of the time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Show the seed at the start."""
    # pytest-randomly says it in the header, which -q leaves out
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(_how_to_repeat(session.config))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show the seed at the end, where a failure is read."""
    terminalreporter.write_line(_how_to_repeat(config))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """What a file draws while it is imported must not depend on which files were imported before."""
    seed_everything(_own_seed(collector.config, collector.nodeid))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What several tests share must not depend on which of them asks for it first."""
    if fixturedef.scope == "function":
        return (yield)
    put_back = random_states()
    seed_everything(_own_seed(request.config, f"{fixturedef.baseid}::{fixturedef.argname}"))
    try:
        return (yield)
    finally:
        put_back()


@pytest.fixture(autouse=True)
def alone(request):
    """Every test and every example has the process for itself."""
    with isolated():
        # an example shows one result
        shown = isinstance(request.node, DoctestItem)
        seed_everything(0 if shown else _own_seed(request.config, request.node.nodeid))
        yield
