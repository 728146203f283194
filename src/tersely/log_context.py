"""Fields that every log line of a piece of work carries: the session, server and tool it belongs to.

A context variable: tasks and threads inherit it, and a line written far below, such as
that of a retry, names what it was for. `logging_setup` adds the fields to each line.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_fields: ContextVar[Mapping[str, Any]] = ContextVar("log_fields", default={})  # noqa: B039 — never changed in place


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add the fields to all log lines within the block: names and numbers, never content."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def log_fields() -> dict[str, Any]:
    return dict(_fields.get())
