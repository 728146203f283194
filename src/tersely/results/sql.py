"""SQL over a kept text: the question goes to `tools.sql_worker`, a process that sees nothing but the text.

DuckDB is an extra (`tersely[query]`). A process per question costs a quarter of a second and buys certainty: some of
DuckDB's functions escape its own limits on memory and time, and what runs over is killed.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import anyio

from tersely.errors import InputError
from tersely.masking.masked import Masked

LONGEST_SQL = 20_000
_STARTING_SECONDS = 10.0
"""What starting the process and loading the text may take, besides the question itself."""

_SECONDS_PER_MEGABYTE = 1.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    seconds: float = 10.0
    memory_mb: int = 512
    rows: int = 500
    answer_bytes: int = 200_000
    cell_characters: int = 2_000


@dataclass(frozen=True, kw_only=True)
class QueryTable:
    """An answer, and what was asked."""

    columns: list[tuple[str, str]]
    """Names and types."""

    rows: list[list[Any]]
    more: bool
    """Whether there are rows behind these."""

    source: str
    """What the text was taken for, e.g. "CSV, 1,204 rows"; empty when only its lines were asked."""


def is_installed() -> bool:
    return importlib.util.find_spec("duckdb") is not None


async def ask(text: Masked, sql: str, *, offset: int = 0, limits: Limits = Limits()) -> QueryTable:  # noqa: B008  (frozen)
    """The rows that a SELECT over the table `result` (or `lines`) gives, from row `offset` on.

    Raises:
        InputError: The text is no table, the SQL is wrong or not allowed, or it took too long or too much. The message
            helps a model.
    """
    if not is_installed():
        raise InputError(
            "SQL over results is not installed here: use read_result or search_result. Operator: pip install "
            "'tersely[query]'"
        )
    if len(sql) > LONGEST_SQL:
        raise InputError(f"The SQL has {len(sql):,} characters; at most {LONGEST_SQL:,} are allowed.")
    request = {
        "sql": sql.replace("\x00", ""),
        "offset": max(0, offset),
        "seconds": limits.seconds,
        "memory_mb": limits.memory_mb,
        "rows": limits.rows,
        "answer_bytes": limits.answer_bytes,
        "cell_characters": limits.cell_characters,
    }
    payload = json.dumps(request).encode() + b"\n" + text.encode("utf-8", "replace")
    deadline = _STARTING_SECONDS + limits.seconds + _SECONDS_PER_MEGABYTE * len(payload) / 2**20
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        with anyio.move_on_after(deadline) as clock:
            # Leaving the block kills the process. It gets our search path, so that it finds the DuckDB we found, and
            # nothing else of ours.
            done = await anyio.run_process(
                [sys.executable, "-P", "-X", "utf8", "-m", "tersely.results.sql_worker"],
                input=payload,
                stderr=subprocess.DEVNULL,
                check=False,
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
    except* anyio.BrokenResourceError:
        pass  # It was gone before it had read everything; there is no answer either.
    if clock.cancelled_caught:
        raise InputError(
            f"The query took longer than {limits.seconds:g} s and was stopped. Filter or aggregate earlier."
        )
    try:
        said = json.loads(done.stdout if done else b"")
    except ValueError:
        raise InputError(
            f"The query ended without an answer, most likely because it needed more than {limits.memory_mb} MB and "
            "was stopped. "
            "Filter or aggregate earlier."
        ) from None
    if "refused" in said:
        raise InputError(said["refused"])
    columns = [(name, kind) for name, kind in said["columns"]]
    return QueryTable(columns=columns, rows=said["rows"], more=said["more"], source=said["source"])
