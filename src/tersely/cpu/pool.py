"""A pool of worker processes with a fair queue.

A process is started when work waits and every running one is busy, and ends after some
minutes without work. Small work overtakes large work that waits, but never for ever. Very
large work never occupies all processes. A process that dies costs no result: its work is
done again by another one, once. Work that kills two processes fails, because in this
process it could kill this one.

Knows nothing of event loops: `submit` returns a `concurrent.futures.Future`.
"""

import heapq
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tersely.cpu.frames import read_frame, write_frame

logger = logging.getLogger(__name__)

HUGE = 4_000_000
"""In characters. Larger work takes seconds to minutes, and leaves one process to the others."""

IDLE_SECONDS = 300.0
ABANDONED_SECONDS = 2.0
"""How long work that nobody waits for may go on: most ends before, and starting a process costs half a second."""

_SECONDS_PER_CHARACTER = 1e-5
"""How much later a larger work is due: ten seconds for a million characters, which is several times what they take."""

_TRIES = 2


class WorkerDied(Exception):
    """The processes that ran a function died. It was not run in this one, because it could end it as well."""


@dataclass(order=True)
class Job:
    due: float
    number: int
    """Equal ones in the order of their arrival."""

    function: Callable[..., Any] = field(compare=False)
    arguments: tuple[Any, ...] = field(compare=False)
    is_huge: bool = field(compare=False)
    future: "Future[Any]" = field(compare=False, default_factory=Future)
    process: "subprocess.Popen[bytes] | None" = field(compare=False, default=None)
    is_abandoned: bool = field(compare=False, default=False)


class WorkerPool:
    """
    Args:
        most: How many processes run at a time.
        from_size: For callers: the size from which on work belongs here.
    """

    def __init__(self, most: int, *, from_size: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self.from_size = from_size
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: tuple[list[Job], list[Job]] = ([], [])
        """Heaps: others, huge ones."""

        self._submitted = 0
        self._idle = 0
        self._huge_running = 0
        self._threads: set[threading.Thread] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def submit(self, function: Callable[..., Any], arguments: tuple[Any, ...], size: int) -> Job:
        with self._changed:
            if self._is_closed:
                raise RuntimeError("The pool of worker processes is closed.")
            self._submitted += 1
            due = self._clock() + size * _SECONDS_PER_CHARACTER
            job = Job(due, self._submitted, function, arguments, size > HUGE)
            heapq.heappush(self._waiting[job.is_huge], job)
            if sum(map(len, self._waiting)) > self._idle and len(self._threads) < self.most:
                thread = threading.Thread(target=self._serve, name="tersely-cpu", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify_all()
        return job

    def abandon(self, job: Job) -> None:
        """Drop a job that nobody waits for; one that goes on is ended after a moment, with its process."""
        if job.future.cancel():
            job.arguments = ()
            return
        job.is_abandoned = True

        def end() -> None:
            with self._changed:
                if job.process is not None and not job.future.done():
                    job.process.kill()

        timer = threading.Timer(ABANDONED_SECONDS, end)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End all processes; what waits or runs is cancelled."""
        with self._changed:
            self._is_closed = True
            for job in (*self._waiting[0], *self._waiting[1]):
                job.future.cancel()
            for process in self._processes:
                process.kill()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    @property
    def process_ids(self) -> list[int]:
        with self._changed:
            return [process.pid for process in self._processes]

    def _serve(self) -> None:
        """One thread for each process: give it work until there is none for some time."""
        process: subprocess.Popen[bytes] | None = None
        while job := self._next():
            if job.future.set_running_or_notify_cancel():
                process = self._run(job, process)
            job.arguments = ()
            with self._changed:
                self._huge_running -= job.is_huge
                self._changed.notify_all()
        self._end(process)

    def _next(self) -> Job | None:
        """Wait for the work that is due first; None if this thread should end."""
        until = self._clock() + IDLE_SECONDS
        with self._changed:
            while not self._is_closed:
                small, huge = self._waiting
                heap = small
                if huge and self._huge_running < max(1, self.most - 1) and (not small or huge[0] < small[0]):
                    heap = huge
                if heap:
                    job = heapq.heappop(heap)
                    self._huge_running += job.is_huge
                    return job
                left = until - self._clock()
                if left <= 0 and not any(self._waiting):
                    break
                self._idle += 1
                self._changed.wait(left if left > 0 else None)
                self._idle -= 1
            self._threads.discard(threading.current_thread())
            return None

    def _run(self, job: Job, process: "subprocess.Popen[bytes] | None") -> "subprocess.Popen[bytes] | None":
        """Run a job to its end; returns the process for the next one, if it is still good."""
        try:
            request = pickle.dumps((job.function, job.arguments), pickle.HIGHEST_PROTOCOL)
        except Exception as problem:  # noqa: BLE001 — a mistake of the caller, who gets it
            job.future.set_exception(problem)
            return process
        for _ in range(_TRIES):
            if process is None or process.poll() is not None:
                self._end(process)
                process = self._start()
            job.process = process
            try:
                write_frame(process.stdin, request)
                reply = read_frame(process.stdout)
            except OSError:
                reply = None
            if reply is None:
                status = self._end(process)
                process = None
                if job.is_abandoned or self._is_closed:
                    job.future.set_exception(WorkerDied("The work was given up."))
                    return None
                logger.warning("cpu_worker_died", extra={"status": status, "function": _name(job.function)})
                continue
            with self._changed:
                job.process = None  # Before the result, so that no late timer ends a process that has other work.
            is_good, value, is_leaving = pickle.loads(reply)
            if is_good:
                job.future.set_result(value)
            else:
                job.future.set_exception(value)
            return None if is_leaving and self._end(process) is not None else process
        died = WorkerDied(f"{_TRIES} worker processes died while they ran {_name(job.function)}.")
        job.future.set_exception(died)
        return None

    def _start(self) -> "subprocess.Popen[bytes]":
        # Of our environment it gets only the import path: it needs no settings, and no secrets.
        process = subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-m", "tersely.cpu.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        with self._changed:
            self._processes.add(process)
            if self._is_closed:
                process.kill()
        return process

    def _end(self, process: "subprocess.Popen[bytes] | None") -> int | None:
        """End a process, if it has not ended; returns its exit status."""
        if process is None:
            return None
        with self._changed:
            self._processes.discard(process)
        process.kill()
        status = process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):  # What was not sent is not needed.
                if stream:
                    stream.close()
        return status


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
