"""Says in one sentence which Python is needed: pip looks for dependencies before it looks at `requires-python`.

Read by hatchling whenever it makes metadata (`tool.hatch.metadata.hooks.custom`); changes nothing in it.
"""

import sys
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info < (3, 11):  # noqa: UP036
    # Not an exception: pip would print its traceback.
    sys.exit(f"Tersely needs Python 3.11 or newer; this is Python {sys.version.split()[0]}.")


class PythonCheck(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """Nothing to add: the check is above."""
