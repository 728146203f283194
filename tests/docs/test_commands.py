"""What the docs tell people to type works.

- A fenced `console` block is run: lines that begin with `$` are commands, of one bash per page, in an empty folder and
  with an empty home. The other lines have to be in the output of the command before them, in this order; `…` stands
  for anything. A command fails the test if it exits with a code other than 0.
  A README of examples/ is played in a copy of its folder.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from tersely.cli import main
from tests.docs.blocks import ROOT, Block, all_blocks, blocks, pages

PLAYED = [page for page in pages() if any(block.language == "console" for block in blocks(page))]
LANGUAGES = {"bash", "console", "http", "json", "pycon", "python", "text", "toml", "yaml"}
_MARK = "=== command"


@dataclass
class Step:
    command: str
    expected: list[str]


def steps_of(block: Block) -> Iterator[Step]:
    step: Step | None = None
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if step:
                yield step
            step = Step(line[2:], [])
        elif step and line.startswith("> "):
            step.command += f"\n{line[2:]}"
        elif step and line.strip():
            step.expected.append(line)
    if step:
        yield step


def play(page: str, folder: Path) -> list[tuple[Step, str]]:
    """Run the page's commands and return each with what it wrote."""
    steps: list[Step] = []
    script = ["exec 2>&1", "trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for number, block in enumerate(blocks(page)):
        if block.title:
            source = folder / f".block-{number}"
            source.write_text(block.text, "utf-8")
            script.append(f"cp {source} {shlex.quote(block.title)}")
        if block.language == "console":
            for step in steps_of(block):
                steps.append(step)
                script += [f"echo '{_MARK} {len(steps)}'", step.command, "CODE=$?", f"echo; echo '{_MARK}' ended $CODE"]
                script.append('test "$CODE" = 0 || exit 1')
    (folder / "home").mkdir()
    if page.startswith("examples/"):
        shutil.copytree((ROOT / page).parent, folder / "work")
    else:
        (folder / "work").mkdir()
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    environment = kept | {
        "HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }
    process = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder / "work",
        env=environment,
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
    said = re.split(rf"^{_MARK} \d+\n", output, flags=re.MULTILINE)[1:]
    assert process.returncode == 0, f"{page}: {steps[len(said) - 1].command}\n{said[-1]}"
    return list(zip(steps, said, strict=True))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="bash")
@pytest.mark.parametrize("page", PLAYED, ids=str)
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    for step, said in play(page, tmp_path):
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
