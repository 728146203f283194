"""The pipeline of a coding agent's results: the user's masking key, spool, log and statistics around `process_once`."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tersely.pipeline.one_shot import OneShot, process_once
from tersely.results.spool import ResultSpool, spool_of
from tersely.settings.folders import data_folder, temporary_folder
from tersely.store.private import private_folder

if TYPE_CHECKING:
    from tersely.masking.mask import Masker
    from tersely.masking.masked import Masked
    from tersely.pipeline.core import NoteWriter

THRESHOLD, BUDGET = 2_000, 1_000
"""Tokens: up to how many a result is shown as it is, and how many a shortened one may have."""

_LARGEST_LOG = 1 * 2**20


class ResultShortener:
    """Shortens the results of one process.

    Args:
        environment: The variables of this process.
        folder: The data folder; by default that of the user.
        masks: Whether secrets are masked.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        folder: str = "",
        threshold: int = THRESHOLD,
        budget: int = BUDGET,
        masks: bool = True,
    ) -> None:
        self.folder = folder or data_folder(environment)
        self.spool: ResultSpool = spool_of(self.folder, temporary_folder(environment))
        self.threshold = threshold
        self.budget = budget
        self.masks = masks
        self._masker: Masker | None = None

    def masker(self) -> "Masker | None":
        """The masker of the user, loaded when it is first needed; None if masking is turned off."""
        if self._masker is None and self.masks:
            from tersely.masking.mask import Masker
            from tersely.store.private import masking_key

            self._masker = Masker(key=masking_key(self.folder))
        return self._masker

    def process(
        self,
        text: str,
        *,
        tool: str,
        arguments: Any,
        call: str,
        looking_for: str | Callable[[], str] = "",
        note: "Callable[[], NoteWriter]",
        threshold: int | None = None,
        budget: int | None = None,
        shows_end: bool = False,
    ) -> OneShot:
        """Run one text through the pipeline; the arguments are those of `process_once`.

        Raises:
            MaskingFailed: The text must not be used.
        """

        def keep(whole: "Masked", tokens: int) -> str | None:
            from tersely.pipeline.admit import admit_arguments

            known = admit_arguments(arguments, self.masker())
            return self.spool.write(whole, tool=tool, arguments=known, tokens=tokens)

        return process_once(
            text,
            masker=self.masker,
            threshold=self.threshold if threshold is None else threshold,
            budget=self.budget if budget is None else budget,
            looking_for=looking_for,
            call=call,
            keep=keep,
            note=note,
            shows_end=shows_end,
        )

    def process_large(
        self,
        parts: Iterable[str],
        *,
        tool: str,
        arguments: Any,
        call: str,
        looking_for: str,
        note: "Callable[[], NoteWriter]",
        budget: int,
        shows_end: bool,
    ) -> OneShot:
        """Run a text that is too large for memory through the pipeline; the arguments are those of `process`.

        Raises:
            MaskingFailed: The text must not be used.
            OSError: There is no room to keep it, which is needed to read it.
        """
        from tersely.pipeline.admit import admit_arguments
        from tersely.pipeline.large import process_large

        kept = self.spool.begin(tool=tool, arguments=admit_arguments(arguments, self.masker()))
        try:
            return process_large(
                parts,
                kept,
                masker=self.masker,
                budget=budget,
                looking_for=looking_for,
                call=call,
                note=note,
                shows_end=shows_end,
            )
        finally:
            kept.close()

    def count(self, door: str, tool: str, shown: OneShot, **more: Any) -> None:
        """Add one result to the statistics; what was not condensed counts as a call only."""
        self.spool.count(
            door=door, tool=tool, before=shown.tokens_before, after=shown.tokens_after, handle=shown.handle, **more
        )

    def log(self, what: str, problem: BaseException) -> None:
        """One line in our log about a failure: its kind and place, never content. Never raises."""
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""  # noqa: PTH119
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {what} {type(problem).__name__} {place}\n"
        for folder in (self.folder, *self.spool.folders[1:]):
            try:
                private_folder(folder)
                path = os.path.join(folder, "hook.log")  # noqa: PTH118
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    if os.fstat(file).st_size > _LARGEST_LOG:
                        os.ftruncate(file, 0)
                    os.write(file, line.encode())
                finally:
                    os.close(file)
            except OSError:
                continue
            return


def write_all(target: int, data: bytes) -> None:
    """Write to a file descriptor, however slowly it is read.

    Raises:
        BrokenPipeError: The reader is gone.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            import select

            select.select([], [target], [])


def complain(sentence: str) -> None:
    """A message of our own to the person or agent, on standard error."""
    sys.stderr.write(f"tersely: {sentence}\n")
    sys.stderr.flush()
