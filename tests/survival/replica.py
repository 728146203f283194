"""`tersely up` with three weaknesses that tests need: a result that kills whoever reads it, a loop that can be made to stand still,
and a limit to its memory.

The first stands for every bug that ends a process; the second for work that holds the
loop. Nothing else differs from `python -m tersely`.
"""

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

from tersely.tools import mask
from tersely.tools.mask import Masker

_masking = Masker.mask


def _dies_of_poison(self: Masker, text: str, *more: Any, **named: Any) -> Any:
    if "POISON for whoever reads it" in text:
        os._exit(137)
    return _masking(self, text, *more, **named)


def _stand_still(number: int, frame: object) -> None:
    time.sleep(float(os.environ.get("STAND_STILL_SECONDS", "0.5")))


def _limit_memory(mebibytes: int) -> None:
    """That much more than there is in use now, as `ulimit -v` has it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    mask.Masker.mask = _dies_of_poison  # type: ignore[method-assign]
    signal.signal(signal.SIGUSR1, _stand_still)
    from tersely.cli import main

    if "MEMORY_MIB" in os.environ:
        _limit_memory(int(os.environ["MEMORY_MIB"]))
    main()
