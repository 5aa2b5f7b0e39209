"""Who does the jobs: processes of this machine, or a Ray cluster. Results are in files, so both leave the same."""

import ipaddress
import multiprocessing
import multiprocessing.connection
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

from r2et.errors import InputError
from r2et.numerics.values import check_choice, check_count
from r2et_bench.worker import Job, give_up, perform

#: called after each job
Done = Callable[[Job], None]
#: a worker that dies (out of memory, a signal) is tried this many times in all
ATTEMPTS = 3


class Executor(ABC):
    """Does jobs, several at once; a worker that dies is tried again, and given up with a record that says so."""

    @abstractmethod
    def run(self, jobs: Sequence[Job], done: Done) -> None:
        """Do all jobs; `done` is told of each as it ends."""


@dataclass(frozen=True)
class LocalExecutor(Executor):
    """Processes of this machine, one torch thread each.

    Args:
        processes: how many at once.
        work: what a process does with a job.
    """

    processes: int = 2
    work: Callable[[Job], None] = perform

    def __post_init__(self) -> None:
        check_count("processes", self.processes)

    def run(self, jobs: Sequence[Job], done: Done) -> None:
        """One process per job: what one of them breaks, it breaks for itself."""
        context = _context()
        waiting = deque((job, 1) for job in jobs)
        running: dict[BaseProcess, tuple[Job, int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.processes:
                    job, attempt = waiting.popleft()
                    process: Any = context.Process(  # type: ignore[attr-defined]  # every context has it
                        target=_alone, args=(self.work, job, os.getpid()), daemon=True
                    )
                    process.start()
                    running[process] = (job, attempt)
                multiprocessing.connection.wait([process.sentinel for process in running])
                for process in [process for process in running if process.exitcode is not None]:
                    job, attempt = running.pop(process)
                    if process.exitcode != 0 and attempt < ATTEMPTS:
                        waiting.appendleft((job, attempt + 1))
                        continue
                    if process.exitcode != 0:
                        give_up(
                            job,
                            f"the worker died {ATTEMPTS} times, at last with exit code {process.exitcode}",
                        )
                    done(job)
        finally:
            for process in running:
                process.kill()


@dataclass(frozen=True)
class RayExecutor(Executor):
    """Tasks of a Ray cluster, one processor each; without a running cluster, one that only this machine can reach.

    All machines see the records and the work folder under the same path, such as a network drive.

    Args:
        processes: of a cluster that is started here.
        address: of a running cluster; None = the one RAY_ADDRESS names, else a new one here.
        work: what a task does with a job.
    """

    processes: int = 2
    address: str | None = None
    work: Callable[[Job], None] = perform

    def __post_init__(self) -> None:
        check_count("processes", self.processes)

    def run(self, jobs: Sequence[Job], done: Done) -> None:
        """One task per job; Ray tries it again when its worker dies."""
        try:
            import ray
        except ImportError as error:
            raise InputError("the Ray executor needs Ray: pip install 'r2et[distributed]'") from error
        if not jobs:
            return
        if not ray.is_initialized():
            _connect(self.address, self.processes)
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(self.work)
        waiting = {task.remote(job): job for job in jobs}
        while waiting:
            ended, _ = ray.wait(list(waiting), num_returns=1)
            job = waiting.pop(ended[0])
            try:
                ray.get(ended[0])
            except ray.exceptions.RayError as error:
                give_up(job, f"the worker died {ATTEMPTS} times: {type(error).__name__}")
            if not job.is_done():
                raise InputError(
                    f"{job.name} was done, but its record is not in {job.records!r}: every machine of a Ray "
                    "cluster must see the folders of records and work under the same path"
                )
            done(job)


def find_executor(name: str, processes: int, address: str | None = None) -> Executor:
    """An executor by name, "local" or "ray".

    >>> find_executor("local", processes=1)
    LocalExecutor(processes=1, ...)
    """
    check_choice("executor", name, ("local", "ray"))
    return LocalExecutor(processes) if name == "local" else RayExecutor(processes, address)


def _connect(address: str | None, processes: int) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None and not os.environ.get("RAY_ADDRESS"):
        _start(processes, quiet)
        return
    try:
        ray.init(address=address or "auto", **quiet)
    except ConnectionError as error:
        raise InputError(f"no Ray cluster answers at {address or os.environ['RAY_ADDRESS']!r}: {error}") from error


def _start(processes: int, quiet: dict[str, Any]) -> None:
    """A new cluster that only this machine can reach: whoever reaches one may run code in it."""
    import ray
    from ray._private import ray_constants

    # an address of loopback is replaced by one that others can reach, unless Ray is told not to join machines
    joined, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        ray.init("local", num_cpus=processes, include_dashboard=False, **quiet)
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = joined
    own = ray.nodes()[0]["NodeManagerAddress"]
    if not ipaddress.ip_address(own).is_loopback:
        ray.shutdown()
        raise InputError(
            f"Ray {ray.__version__} listens on {own}, which other machines may reach: start a cluster of your own "
            "with `ray start --head` and name it with address='auto'"
        )


def _context() -> BaseContext:
    """Forked from a server that has imported torch, where the system can: a process per job costs little."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # what data, training and scoring import late (optimizers: torch's compiler) is most of what a small cell costs
    context.set_forkserver_preload(["r2et_bench.worker", "sklearn.datasets", "sklearn.metrics", "torch._dynamo"])
    return context


def _alone(work: Callable[[Job], None], job: Job, driver: int) -> None:
    """Do a job in a process of its own, which ends when the one that asked for it does."""

    def watch() -> None:
        while True:
            try:
                os.kill(driver, 0)
            except OSError:
                os._exit(1)
            time.sleep(1)

    if sys.platform != "win32":
        threading.Thread(target=watch, daemon=True).start()
    work(job)
