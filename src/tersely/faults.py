"""Places at which a test may end the process, named where they are.

`crash_point("after claim")` does nothing, unless the process was started with
`FAULT_AT=after claim:3`: then the third time it comes by here, it kills itself as
SIGKILL would. `FAULT_LIST=FILE` writes down every place that was passed, so that
nobody has to keep a list: a new step is a new place.
"""

import os
import re
import signal
from pathlib import Path

_AT, _, _NTH = os.environ.get("FAULT_AT", "").partition(":")
_LIST = os.environ.get("FAULT_LIST", "")
_passed: dict[str, int] = {}

_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


def crash_point(name: str) -> None:
    """A place named `name`."""
    if _AT or _LIST:
        _pass(name)


def place_of(step: str) -> str:
    """The kind of a step: its name without what differs from session to session."""
    return "/".join(part for part in _IDS.sub("", step).split("/") if part)


def _pass(name: str) -> None:
    _passed[name] = _passed.get(name, 0) + 1
    if _LIST and _passed[name] == 1:
        with Path(_LIST).open("a") as file:
            file.write(f"{name}\n")
    if name == _AT and _passed[name] == int(_NTH or 1):
        os.kill(os.getpid(), signal.SIGKILL)
