"""Runs CPU work of asynchronous code: large texts in worker processes where there are any, the rest in a few threads.

    async with cpu_workers():                       # an entry point that serves many callers at once
        await run_cpu(condense, text, budget)       # everywhere else; without workers, in a thread

The interpreter runs one thread at a time, so work in many threads keeps the event loop
waiting, and with it probes and signs of life. Worker processes do not; threads, which need
neither a start nor a copy, do the small work, and everything in programs that have one caller.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from tersely.cpu.pool import WorkerPool

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

SMALL = 32_000
"""In characters. Work on shorter texts takes a few hundredths of a second, and is done in a thread."""

LARGE = 500_000
"""In characters. From this size on, programs with one caller use a worker process too."""

_FEWEST_THREADS = 4
"""So that one long work in a thread does not hold up the short ones."""

_pool: WorkerPool | None = None
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("tersely_cpu_threads")


async def run_cpu(function: Callable[[*Arguments], Result], *arguments: *Arguments, size: int | None = None) -> Result:
    """Call a pure function of a module with values that can be pickled.

    A cancelled caller does not wait for the function to return.

    Args:
        size: Characters to work on; by default those of the texts among the arguments.

    Raises:
        WorkerDied: Two worker processes in a row died while they ran it.
    """
    if _pool is None or (_text_size(arguments) if size is None else size) < _pool.from_size:
        return await run_in_thread(function, *arguments)
    job = _pool.submit(function, arguments, _text_size(arguments) if size is None else size)
    try:
        return await asyncio.wrap_future(job.future)
    except asyncio.CancelledError:
        _pool.abandon(job)
        raise


async def run_in_thread(function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    """Call a function that uses objects of this process, or is short, in one of a few threads."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(max(_FEWEST_THREADS, available_cores()))
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(function, *arguments, limiter=limiter)


@asynccontextmanager
async def cpu_workers(most: int | None = None, *, from_size: int = SMALL) -> AsyncIterator[None]:
    """Have worker processes for `run_cpu` inside the block. They start when there is work for them.

    Args:
        most: Number of processes; by default one for each core, and at least two. 0: only threads.
        from_size: Characters from which on the work is worth a process.
    """
    global _pool
    most = max(2, available_cores()) if most is None else most
    if most == 0 or _pool is not None:
        yield
        return
    pool = _pool = WorkerPool(most, from_size=from_size)
    try:
        yield
    finally:
        _pool = None
        pool.close()


def available_cores() -> int:
    """Cores that this process may use, which in a container can be fewer than the machine has."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return max(1, min(cores, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        return cores


def _text_size(arguments: tuple[Any, ...]) -> int:
    return sum(len(argument) for argument in arguments if isinstance(argument, str))
