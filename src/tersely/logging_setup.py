"""What a process says about itself: JSON lines on stderr, each with its `service_id`.

Content never goes in: callers log sizes, names and outcomes. What is said all the same, by an exception or by a
library,
is masked, and long values are cut, so that nobody can fill the log.
"""

import json
import logging
import sys
import time
from typing import Any, TextIO

from tersely.errors import MaskingFailed
from tersely.masking.mask import mask

LONGEST_VALUE = 2_000

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


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
        line |= {
            name: _bounded(value) for name, value in vars(record).items() if name not in _STANDARD and name not in line
        }
        if record.exc_info and record.exc_info[1]:
            kind, problem = type(record.exc_info[1]), record.exc_info[1]
            line["exception"] = _bounded(f"{kind.__name__}: {problem}")
            line["where"] = _where(record.exc_info[1])
        return json.dumps(line, ensure_ascii=True, default=str)


def _bounded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        # Masked before it is cut: half of a secret would no longer be known for one.
        masked = mask(value[: 10 * LONGEST_VALUE])
    except MaskingFailed:
        return "[not shown: it could not be checked for secrets]"
    return masked if len(value) <= LONGEST_VALUE else masked[:LONGEST_VALUE] + f"… ({len(value)} characters)"


def _where(problem: BaseException) -> list[str]:
    """The last frames, without source lines or values: enough to find the place, too little to leak."""
    frames = []
    trace = problem.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames[-8:]


def configure_logging(service_id: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Send everything that is logged to stderr as JSON lines. Libraries lose handlers of their own."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(service_id))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries are heard when they warn, whatever the level: their news quote requests, addresses and contents.
    root.setLevel(logging.WARNING)
    logging.getLogger("tersely").setLevel(level.upper())
    for name in ("fastmcp", "mcp", "uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.WARNING)
    logging.captureWarnings(True)
