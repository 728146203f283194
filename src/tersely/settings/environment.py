"""The environment variables of this process.

The only reader of `os.environ`; a test checks that. Everything else gets a mapping handed in,
from a command or a composition root.
"""

import os
from collections.abc import Mapping


def process_environment() -> Mapping[str, str]:
    """A copy of the variables, as they are set now."""
    return dict(os.environ)
