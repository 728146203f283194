"""Gives memory that was freed back to the system, where the C library would keep it; collects garbage rarely."""

import contextlib
import gc


def release_memory() -> None:
    """Return what is free to the system; does nothing where the C library has no such function.

    Worth its millisecond after something large was loaded: glibc keeps what loading needed for a moment.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # Windows, macOS, musl
        ctypes.CDLL(None).malloc_trim(0)


def collect_rarely() -> None:
    """For a process that has loaded what it needs and answers small requests from now on.

    What is loaded is never garbage, and a small request makes thousands of short-lived objects that need no collector.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
