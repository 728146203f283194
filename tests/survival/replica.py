"""`python -m tersely` with three weaknesses that tests need.

Crash points end the process where `FAULT_AT` says (`tests.survival.crash_points`), a
tool result with a certain text kills the process that masks it, and SIGUSR1 blocks the
event loop. The second stands for every bug that ends a process, the third for work
that blocks the loop.
"""

import os
import signal
import sys
import time
from typing import Any

from tersely.masking import mask
from tersely.masking.mask import Masker

_masking = Masker.mask


def _dies_of_poison(self: Masker, text: str, *more: Any, **named: Any) -> Any:
    if "POISON for whoever reads it" in text:
        os._exit(137)
    return _masking(self, text, *more, **named)


def _stand_still(number: int, frame: object) -> None:
    time.sleep(float(os.environ.get("STAND_STILL_SECONDS", "0.5")))


if __name__ == "__main__":
    mask.Masker.mask = _dies_of_poison  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, _stand_still)
    from tersely.cli import main
    from tersely.cli.hooks import Hooks
    from tests.survival.crash_points import crash_points

    main(
        obj=Hooks(
            # A child process crashes only by the session that it runs.
            on_point=crash_points({} if "suspects" in sys.argv else os.environ),
            program=(sys.executable, "-m", "tests.survival.replica"),
        )
    )
