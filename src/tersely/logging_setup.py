"""Logging on stderr: lines for people on a terminal, otherwise JSON lines.

Each line has its `service_id` (in JSON) and the fields of the current `log_context`.
Callers log sizes, names and outcomes, never content. Content that gets in through an exception or a library is masked,
and long values are cut, so that no caller can fill the log.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, TextIO

from tersely.errors import MaskingFailed
from tersely.log_context import log_fields
from tersely.masking.mask import mask

LONGEST_VALUE = 2_000

STORE_BACK = "store_available"
"""The line that ends a series of those about an unavailable database."""

_ABOUT_THE_STORE = frozenset(
    {"store_unavailable", "step_not_stored", "worker_lock_lost", "notices_lost", "viewers_wait_for_store"}
)
_DATABASE_LIBRARIES = frozenset({"dbos", "psycopg", "sqlalchemy"})

FOR_PEOPLE = "for_people"
"""Extra field of a record: what to print instead of its event and fields where people read the log."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
    FOR_PEOPLE,
}


class JsonFormatter(logging.Formatter):
    def __init__(self, service_id: str) -> None:
        super().__init__()
        self.service_id = service_id

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "service_id": self.service_id,
            "event": _bounded(record.getMessage()),
            "logger": record.name,
        }
        line |= {name: value for name, value in _fields(record).items() if name not in line}
        if record.exc_info and record.exc_info[1]:
            error = record.exc_info[1]
            line["exception"] = _bounded(f"{type(error).__name__}: {error}")
            line["where"] = _last_frames(error)
        return json.dumps(line, ensure_ascii=True, default=str)


_COLORS = {"warning": "33", "error": "31", "critical": "31"}


class TextFormatter(logging.Formatter):
    """Lines for people: time, level unless it is info, event, fields."""

    def __init__(self, *, color: bool) -> None:
        super().__init__()
        self._color = color

    def format(self, record: logging.LogRecord) -> str:
        level = record.levelname.lower()
        if words := getattr(record, FOR_PEOPLE, ""):
            text = _bounded(str(words))
        else:
            fields = {name: value for name, value in _fields(record).items() if value not in (None, "", [], {})}
            text = _one_line(_bounded(record.getMessage()))
            text += "".join(f"  {self._styled(f'{name}=', '2')}{_one_line(value)}" for name, value in fields.items())
        if record.exc_info and record.exc_info[1]:
            error = record.exc_info[1]
            text += f"  {_one_line(_bounded(f'{type(error).__name__}: {error}'))} ({_last_frames(error)[-1]})"
        shown_level = "" if level == "info" else f"{self._styled(level, _COLORS.get(level, '2'))}  "
        return f"{self._styled(time.strftime('%H:%M:%S', time.localtime(record.created)), '2')}  {shown_level}{text}"

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color else text


class RepetitionFilter(logging.Filter):
    """Keeps the log readable while a database is away: a line about it is written once, then at most once a minute.

    `left_out` of the next such line, and of the line that says it is back, is how many lines were not written.
    """

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds, self._clock = seconds, clock
        self._written: dict[object, tuple[float, int]] = {}
        """When a line of each kind was written, and how many were left out since."""

        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = _kind_of(record)
        if kind is None:
            return True
        with self._lock:
            if kind == STORE_BACK:
                left_out = sum(count for _, count in self._written.values())
                self._written.clear()
            else:
                now = self._clock()
                written, left_out = self._written.get(kind, (now - self._seconds, 0))
                if now - written < self._seconds:
                    self._written[kind] = (written, left_out + 1)
                    return False
                self._written[kind] = (now, 0)
        if left_out:
            record.left_out = left_out
        return True


def _kind_of(record: logging.LogRecord) -> object:
    """What makes two lines about the database repetitions of each other; None for all other lines."""
    if record.msg == STORE_BACK or record.msg in _ABOUT_THE_STORE:
        return record.msg
    if record.levelno >= logging.WARNING and record.name.partition(".")[0] in _DATABASE_LIBRARIES:
        return (record.name, record.lineno)  # Their texts contain the errors, which differ.
    return None


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields of the context and those of the call, which win; each masked and cut."""
    given = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: _bounded(value) for name, value in (log_fields() | given).items()}


def _one_line(value: Any) -> str:
    """A value without what could move the cursor or forge a line."""
    shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return "".join(char if char.isprintable() else " " for char in shown)


def _bounded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # Masked before it is cut: half a secret would not be recognised.
        masked = mask(value[: 10 * LONGEST_VALUE])
    except MaskingFailed:
        return "[not shown: masking failed]"
    return masked if len(value) <= LONGEST_VALUE else masked[:LONGEST_VALUE] + f"… ({len(value)} characters)"


def _last_frames(error: BaseException) -> list[str]:
    """The last frames as file, line and function; source lines and values could contain secrets."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-8:]


def configure_logging(
    service_id: str,
    level: str = "info",
    style: Literal["auto", "json", "text"] = "json",
    stream: TextIO | None = None,
) -> None:
    """Send all log records to stderr; handlers that libraries installed are removed.

    Args:
        style: `auto`: text if the stream is a terminal, else JSON lines.
    """
    stream = stream or sys.stderr
    is_terminal = stream.isatty()
    handler = logging.StreamHandler(stream)
    in_text = style == "text" or (style == "auto" and is_terminal)
    handler.setFormatter(TextFormatter(color=is_terminal) if in_text else JsonFormatter(service_id))
    handler.addFilter(RepetitionFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log at WARNING whatever the level: their INFO records quote requests, addresses and content.
    root.setLevel(logging.WARNING)
    logging.getLogger("tersely").setLevel(level.upper())
    for name in ("fastmcp", "mcp", "uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.WARNING)
    logging.captureWarnings(True)
