"""Handles of kept results. Imports nothing but the standard library: hooks make handles without opening a database."""

import os

HANDLE_SYMBOLS = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 symbols without those that look alike; sixteen of them are 80 bits."""


def new_handle() -> str:
    return "r_" + "".join(HANDLE_SYMBOLS[byte & 31] for byte in os.urandom(16))
