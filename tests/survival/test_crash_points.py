"""Crash points are handed in: production code names them and reads nothing about them from the environment."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.survival.crash_points import crash_points

ROOT = Path(__file__).parents[2]


def test_no_module_of_the_package_mentions_the_variables_of_crash_points() -> None:
    modules = [path for path in (ROOT / "src" / "tersely").rglob("*") if path.suffix in (".py", ".md", ".yaml", ".js")]
    assert len(modules) > 100
    assert [path for path in modules if re.search(r"(?<![A-Z_])FAULT_", path.read_text("utf-8"))] == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.process
def test_a_process_ends_the_nth_time_it_passes_the_named_point() -> None:
    script = (
        "from tests.survival.crash_points import crash_points\n"
        "on_point = crash_points({'FAULT_AT': 'here:2'})\n"
        "for name in ('here', 'there', 'here'): print(name, flush=True); on_point(name)\n"
        "print('alive')"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.split()) == (-signal.SIGKILL, ["here", "there", "here"])


def test_each_point_that_is_passed_is_listed_once(tmp_path: Path) -> None:
    on_point = crash_points({"FAULT_LIST": str(tmp_path / "points")})
    for name in ("a", "b", "a"):
        on_point(name)
    assert (tmp_path / "points").read_text().splitlines() == ["a", "b"]
