"""The environment variables of this process, and nothing else: hooks need them before anything is imported.

The only reader of `os.environ`; a test checks that. `.env` files are `settings.environment`.
"""

import os

TYPE_CHECKING = False  # Not from `typing`, which takes longer to import than all of this.
if TYPE_CHECKING:
    from collections.abc import Mapping


def process_environment() -> "Mapping[str, str]":
    """A copy of the variables, as they are set now."""
    return dict(os.environ)
