"""`tersely up` with two weaknesses that tests need: a result that kills whoever reads it, and a loop that can be made
to stand still.

The first stands for every bug that ends a process; the second for work that holds the
loop. Nothing else differs from `python -m tersely`.
"""

import os
import signal
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

    main()
