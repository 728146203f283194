"""CPU of a hook and of `tersely run`, from process start to exit, beside `python -c pass` in the same run.

    python -m bench.hooks [--rounds 15]

The figures are ratios, because an agent pays for every process on its own machine. With a
helper process (`--warm`), the work of the helper is not the hook's and is not in the figure.
The targets are those of a machine on which `python -c pass` takes 12 ms.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.arguments import parser
from bench.bars import Bars

PYTHON = sys.executable
TERSELY = str(Path(PYTHON).with_name("tersely"))
"""The program as it is installed; `python -m` would add a third to the time of the fast path."""

SMALL = {
    "ls": "README.md\nbench\ndocs\npyproject.toml\nsrc\ntests\n",
    "git status": "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, tree clean\n",
    "pytest": "........................................ [100%]\n40 passed in 1.32s\n",
    "ruff": "src/app/main.py:12:1: F401 [*] `os` imported but unused\nFound 1 error.\n[*] 1 fixable with `--fix`.\n",
    "git log": "".join(f"{at:07x} module_{at}: change part {at}\n" for at in range(1_000_000, 1_000_040)),
    "tsc": "src/index.ts(4,7): error TS2322: Type 'string' is not assignable to type 'number'.\n",
    "env with a secret": "HOME=/home/me\nDB_PASSWORD=correct-horse-battery\nPATH=/usr/bin:/bin\n",
    "df": "Filesystem 1K-blocks     Used Available Use% Mounted on\n/dev/sda1   98304000 40304000  58000000  41% /\n",
}


def large(size: int) -> str:
    lines = [
        f"2026-11-16T07:{at // 60 % 60:02}:{at % 60:02}Z INFO request {at} served in {at % 97} ms" for at in range(4000)
    ]
    lines[1500] = "2026-11-16T07:25:00Z ERROR connection refused password=correct-horse-battery"
    return "\n".join(lines)[:size]


def cpu(command: list[str], given: bytes, env: dict[str, str], rounds: int) -> float:
    """Median CPU in milliseconds: user and system, of the process and its children that were waited for."""
    spent = []
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, input=given, stdout=subprocess.DEVNULL, check=True, env=env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return statistics.median(spent)


def event(output: str) -> bytes:
    return json.dumps(
        {
            "session_id": "00893aaf-19fa-41d2-8238-13269b9b3ca0",
            "transcript_path": "/home/me/.claude/projects/p/00893aaf-19fa-41d2-8238-13269b9b3ca0.jsonl",
            "cwd": "/home/me/project",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make", "description": "Build"},
            "tool_response": {"stdout": output, "stderr": "", "interrupted": False},
            "tool_use_id": "toolu_01ABC",
        }
    ).encode()


def main() -> None:
    options = parser(__doc__, figures=True)
    options.add_argument("--rounds", type=int, default=15)
    given = options.parse_args()
    bars = Bars()
    rounds = 1 if given.smoke else given.rounds
    missed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TERSELY_DATA_DIR": folder, "TMPDIR": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        hook = [TERSELY, "hook", "claude-code"]
        subprocess.run(hook, input=event(large(100_000)), stdout=subprocess.DEVNULL, check=True, env=env)  # compiles
        nothing = cpu([PYTHON, "-c", "pass"], b"", env, rounds)
        print(f"python -c pass: {nothing:.1f} ms")

        def show(name: str, spent: float, most: float | None = None) -> None:
            """Print one figure; `most` is its target, in times of `nothing`."""
            is_missed = most is not None and spent > most * nothing
            missed.extend([name] if is_missed else [])
            target = f"  (target {most:.1f} ×{', missed' if is_missed else ''})" if most is not None else ""
            print(f"{name:<34} {spent:7.1f} ms {spent / nothing:6.2f} ×{target}")
            panel = "100 kB" if name.endswith("100 kB") else "Small outputs"
            bars.add(panel, name, "tersely", spent / nothing, unit="times the CPU of python -c pass", most=most)

        cold = {name: cpu(hook, event(text), env, rounds) for name, text in SMALL.items()}
        for name, spent in cold.items():
            show(f"hook, {name}", spent)
        show("hook, small outputs, mean", statistics.mean(cold.values()), 3.5)
        show("hook, 100 kB", cpu(hook, event(large(100_000)), env, max(1, rounds // 3)), 400 / 12)
        show("run -- true", cpu([TERSELY, "run", "--", "true"], b"", env, rounds), 3.5)
        warm = [*hook, "--warm"]
        helper = subprocess.Popen([TERSELY, "hook", "helper"], env=env)
        try:
            while not list(Path(folder).glob("tersely-helper-*/*.sock")):
                time.sleep(0.1)
            for name in ("ls", "env with a secret"):
                show(f"hook --warm, {name}", cpu(warm, event(SMALL[name]), env, rounds), 1.5)
            show("hook --warm, 100 kB", cpu(warm, event(large(100_000)), env, rounds), 1.5)
        finally:
            helper.terminate()
            helper.wait()
    bars.write(given.json)
    if missed and not given.smoke:
        sys.exit(f"Targets not met: {', '.join(missed)}")


if __name__ == "__main__":
    main()
