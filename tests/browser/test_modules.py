"""What thinks in the dashboard, without a browser: `node --test`."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HERE = Path(__file__).parent / "modules"


@pytest.mark.parametrize("module", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_the_dashboards_own_thinking_is_right(module: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node on this machine")
    done = subprocess.run([node, "--test", str(HERE / module)], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-4_000:]
