"""Wheel and source archive, built and installed in fresh environments, with an empty home: `make smoke`.

Uses nothing of the environment it runs in but the interpreter and, where it is installed, uv, which is quicker than
pip. Runs on Linux, macOS and Windows.

    python -m tests.smoke            the core, from wheel and source archive
    python -m tests.smoke --demo     then `tersely[all]` and its demo
    python -m tests.smoke --offline  only the wheel, with the dependencies of this environment
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
LOG = "".join(f"2026-11-15T10:00:{n % 60:02d}Z INFO api GET /cart/{n} 200\n" for n in range(2_000))
LOG += "2026-11-15T11:00:00Z ERROR api checkout failed: password=Qm4xTr8zLw2k pool orders-primary exhausted\n"


def run(command: Sequence[str | Path], folder: Path, stdin: str = "", codes: Sequence[int] = (0,)) -> str:
    """Run a command with an empty home and return what it wrote."""
    kept = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LANG", "PATHEXT", "COMSPEC", "UV_", "PIP_", "SSL_", "HTTP")
    environment = {name: value for name, value in os.environ.items() if name.upper().startswith(kept)}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment |= {"HOME": str(home), "USERPROFILE": str(home), "APPDATA": str(home), "LOCALAPPDATA": str(home)}
    environment |= {"PYTHONUTF8": "1"}
    if "UV_CACHE_DIR" not in environment and (cache := Path.home() / ".cache" / "uv").is_dir():
        environment["UV_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        list(map(str, command)),
        input=stdin,
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=900,
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, command))}\nexited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(folder: Path) -> tuple[Path, Path]:
    """Build both archives with the hatchling of this environment, or of one that pip makes."""
    try:
        import hatchling  # noqa: F401
    except ImportError:
        environment = new_environment(folder / "build")
        install(environment, ["hatchling"], folder)
        python = environment / SCRIPTS / "python"
    else:
        python = Path(sys.executable)
    for target in ("sdist", "wheel"):
        subprocess.run(
            [str(python), "-m", "hatchling", "build", "-t", target, "-d", str(folder / "dist")],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def new_environment(path: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "venv", *(["--without-pip"] if _uv() else []), str(path)], check=True, timeout=600
    )
    return path


def install(environment: Path, what: Sequence[str], folder: Path) -> None:
    python = environment / SCRIPTS / "python"
    command = [_uv(), "pip", "install", "--quiet", "--python", python] if _uv() else [python, "-m", "pip", "install"]
    run([*map(str, command), *what], folder)


def _uv() -> str | None:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else shutil.which("uv")


def check_core(environment: Path, folder: Path) -> None:
    """What works after `pip install tersely`."""
    folder.mkdir()
    tersely = environment / SCRIPTS / "tersely"
    assert run([tersely, "--version"], folder).startswith("tersely ")
    assert "Commands:" in run([tersely], folder)
    condensed = run([tersely, "condense", "--budget", "200", "--focus", "checkout", "--keep"], folder, LOG)
    assert "pool orders-primary exhausted" in condensed and "Qm4xTr8zLw2k" not in condensed, condensed
    handle = condensed.strip().rpartition(" ")[2]
    assert "/cart/1999" in run([tersely, "read", handle, "--grep", "cart/1999"], folder)
    assert "[MASKED:" in run([tersely, "mask"], folder, LOG[-200:])
    run([tersely, "config", "init"], folder)
    assert "tersely.yaml is valid" in run([tersely, "config", "check"], folder)
    run([environment / SCRIPTS / "python", "-c", "import tersely; assert tersely.condense({'a': [1, 2]}).text"], folder)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", action="store_true", help="also install tersely[all] and run its demo")
    parser.add_argument("--offline", action="store_true", help="take the dependencies from this environment")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel, sdist = build(folder)
        if given.offline:
            check_offline(wheel, folder)
            return
        for archive in (wheel, sdist):
            name = archive.suffix.strip(".")
            environment = new_environment(folder / name)
            install(environment, [str(archive)], folder)
            check_core(environment, folder / f"work-{name}")
            print(f"{archive.name}: installed, condenses, masks, keeps and reads back")
        if given.demo:
            environment = new_environment(folder / "all")
            install(environment, [f"{wheel}[all]"], folder)
            place = folder / "work-all"
            place.mkdir()
            said = run([environment / SCRIPTS / "tersely", "demo", "--once"], place)
            assert "tokens" in said, said
            print("tersely[all]: the demo found its cause")


def check_offline(wheel: Path, folder: Path) -> None:
    """Install the wheel with the packages of this environment behind those of the fresh one."""
    environment = new_environment(folder / "offline")
    install(environment, ["--no-deps", str(wheel)], folder)
    (site,) = environment.glob("[Ll]ib/**/site-packages")
    (site / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    check_core(environment, folder / "work-offline")
    print(f"{wheel.name}: installed, condenses, masks, keeps and reads back")


if __name__ == "__main__":
    main()
