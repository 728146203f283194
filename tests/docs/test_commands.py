"""What the docs tell people to type works.

- Fenced `console` and `bash` blocks are played, all of a page in one bash with an empty home. In a `console` block,
  lines that begin with `$` are commands; the others have to be in the output of the command before them, in this order;
  `…` stands for anything. A command fails the test if it exits with a code other than 0.
- Tutorials begin in an empty folder and READMEs of examples/ in a copy of theirs. All other pages are played on a stage
  (stage.py) with small files, sessions and stand-ins for programs such as kubectl.
- What cannot be played here has its reason in `NOT_PLAYED` of stage.py; a test counts and prints them.
- A fenced block with a title (```python title="server.py") is written to a file of this name first.
- Every other line of a code block that begins with `tersely` is parsed by the command line: command and options exist.

Files and messages: test_files.py. Python without a title: tests/test_examples.py.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tersely.cli import main
from tests.docs.blocks import ROOT, all_blocks, blocks, pages
from tests.docs.stage import MARK, Stage, Step, is_whole, steps_of

PLAYED = [page for page in pages() if any(not step.reason for step in steps_of(page))]
ON_POSTGRESQL = ("docs/how-to/investigations.md", "docs/how-to/backup.md")
LANGUAGES = {"bash", "console", "http", "json", "pycon", "python", "text", "toml", "yaml"}


@pytest.fixture(scope="module")
def tersely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a `tersely` that has imported its libraries already."""
    folder = Path(tempfile.mkdtemp(prefix="docs-"))  # The address of a socket is short.
    process = subprocess.Popen([sys.executable, "-m", "tests.docs.forked", str(folder)], cwd=ROOT)
    try:
        while not (folder / "tersely").exists():
            assert process.poll() is None
            time.sleep(0.05)
        yield folder
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def play(stage: Stage) -> list[tuple[Step, str]]:
    """Run the page's commands and return each with what it wrote."""
    process = subprocess.Popen(
        ["bash", "-c", stage.script()],
        cwd=stage.work,
        env=stage.environment,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=500)[0]
    finally:
        # What the page left running.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    steps = steps_of(stage.page)
    before, *said = re.split(rf"^{MARK} \d+\n", output, flags=re.MULTILINE)
    assert process.returncode == 0, f"{steps[len(said) - 1]}\n{(said or [before])[-1]}"
    return list(zip(steps, said, strict=True))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if is_whole(page) else pytest.mark.long) for page in PLAYED]
)
def test_the_commands_of_a_page_print_what_it_shows(
    page: str, tmp_path: Path, tersely: Path, request: pytest.FixtureRequest
) -> None:
    database = str(request.getfixturevalue("postgresql_url")) if page in ON_POSTGRESQL else ""
    for step, said in play(Stage(page, tmp_path, tersely, database)):
        patterns = [".*".join(map(re.escape, line.strip().split("…"))) for line in step.expected]
        pattern = re.compile(".*?".join(patterns), re.DOTALL)
        flat = re.sub(r"[ \t]+", " ", said)
        assert re.search(re.sub(r"(?:\\ )+", r"\\ ", pattern.pattern), flat, re.DOTALL), f"{step.command}\n{said}"


def shown_commands(page: str) -> Iterator[str]:
    """What begins with `tersely` in blocks and in single words of code, without comments."""
    prose = re.findall(r"(?<!`)`(tersely [^`\n]+)`(?!`)", (ROOT / page).read_text("utf-8"))
    for block in (*(block.text for block in blocks(page) if block.language in ("bash", "console")), *prose):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for part in re.split(r"(?<![<>])[|;&]+(?![>&])", line):
                found = re.match(r"\s*(?:\$ )?(?:env )?(?:[A-Z_]+=\S+ )*(tersely(?: .*)?)$", part)
                if found:
                    yield found[1]


def test_every_command_in_the_docs_exists_with_its_options() -> None:
    wrong = []
    count = 0
    for page in pages():
        for line in shown_commands(page):
            try:
                words = shlex.split(re.sub(r"(?:^|\s)#.*|\s*\d?[<>]+.*", "", line))[1:]
            except ValueError:
                continue  # A quotation that ends on another line.
            count += 1
            if reason := misuse(words):
                wrong.append(f"{page}: {line}: {reason}")
    assert not wrong and count > 200, "\n".join(wrong)


def test_commands_that_are_not_played_exist_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    """A target of make, a benchmark with its options."""
    steps = [step for page in pages() for step in steps_of(page)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    wrong = []
    for step in steps:
        words = shlex.split(step.command, comments=True)
        if words[0] == "make":
            wrong += [f"{step.block}: make {word}" for word in words[1:] if word not in targets]
        elif step.reason and "-m" in words:
            module, *rest = words[words.index("-m") + 1 :]
            source = ROOT / f"{module.replace('.', '/')}.py"
            text = source.read_text("utf-8") if source.exists() else ""
            wrong += [
                f"{step.block}: {step.command}" for word in rest if word.startswith("--") and f'"{word}"' not in text
            ]
            wrong += [] if text else [f"{step.block}: there is no {module}"]
    assert not wrong, "\n".join(wrong)
    reasons = Counter(step.reason for step in steps if step.reason)
    assert reasons.total() <= len(steps) // 3, reasons
    with capsys.disabled():
        needs = ", ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        print(f"\n{len(steps) - reasons.total()} of {len(steps)} commands of the docs are played; others need: {needs}")


def misuse(words: list[str]) -> str:
    """Why the command line would refuse these words; placeholders such as FILE and … are fine."""
    command: click.Command = main
    words = [word for word in words if word not in ("…", "[…]")]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        inner = command.commands.get(words[0])
        if inner is None:
            if command.invoke_without_command or words[0].isupper():
                break
            return f"there is no command {words[0]!r}"
        command, words = inner, words[1:]
    options = {name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts}
    options |= {"-h", "--help", "--version"}
    given = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in given if re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in options]
    return f"{command.name} has no {', '.join(unknown)}" if unknown else ""


def test_every_block_says_what_it_is() -> None:
    """A command or a file cannot hide from these tests in a block without a language."""
    wrong = [str(block) for block in all_blocks() if block.language not in LANGUAGES]
    wrong += [
        str(block)
        for block in all_blocks("text")
        if block.page != "docs/gallery.md"
        and re.match(r"(?:\$ |tersely |make |python |curl |from tersely)", block.text)
    ]
    assert not wrong, "\n".join(wrong)
