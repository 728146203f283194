"""Gives memory that was freed back to the system, where the C library would keep it."""

import contextlib


def release_memory() -> None:
    """Return what is free to the system; does nothing where the C library has no such function.

    Worth its millisecond after something large was loaded: glibc keeps what loading needed for a moment.
    """
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):  # Windows, macOS, musl
        ctypes.CDLL(None).malloc_trim(0)
