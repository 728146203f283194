"""What Windows does not have is not needed to import Tersely, and what cannot work there is refused in a sentence.

Nobody here has a Windows: the modules that only Unix has are hidden from our code, and the platform is renamed.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tersely.coding import hook
from tersely.coding.results import ResultShortener
from tersely.launch import launch

ROOT = Path(__file__).resolve().parents[1]
HIDDEN = """
import builtins, importlib, pkgutil
import tersely
ONLY_UNIX = {"fcntl", "resource", "pty", "tty", "termios", "pwd", "grp", "posix"}
original = builtins.__import__

def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "")
    if importer.startswith("tersely") and name in ONLY_UNIX:
        raise ImportError(f"{importer} needs {name}")
    return original(name, globals, locals, fromlist, level)

builtins.__import__ = guarded
failed = []
for module in pkgutil.walk_packages(tersely.__path__, "tersely."):
    if module.name in ("tersely.__main__", "tersely.coding.helper") or ".migrations." in module.name:
        continue
    try:
        importlib.import_module(module.name)
    except ImportError as problem:
        failed.append(f"{module.name}: {problem}")
print(*failed, sep="\\n")
"""


@pytest.mark.process
@pytest.mark.slow
def test_every_module_is_imported_without_what_only_unix_has() -> None:
    """The helper of hooks is the one exception: `launch` refuses it there."""
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN], cwd=ROOT, capture_output=True, text=True, check=True, timeout=300
    )
    assert not done.stdout.strip(), done.stdout


@pytest.mark.parametrize("words", [["run", "--", "npm", "test"], ["hook", "helper"]])
def test_a_command_that_needs_unix_is_refused_in_a_sentence(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "argv", ["tersely", *words])
    with pytest.raises(SystemExit, match="needs a Unix system"):
        launch()


def test_a_hook_has_its_time_limit_without_timer_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended: list[int] = []
    monkeypatch.delattr(signal, "setitimer")
    monkeypatch.setattr("os._exit", ended.append)
    shortener = ResultShortener({}, folder=str(tmp_path))
    hook._limit(0.05, shortener)
    cancel = hook._limit(60, shortener)
    cancel()
    until = time.monotonic() + 30
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
    assert ended == [0]
