"""`tersely hook CLIENT`: reads one event of a coding agent on standard input and answers on standard output.

It must never break the agent. Whatever fails here, the answer is empty, so that the
original stays, the exit code is 0, and one line in our log says what failed. So it is
after a time limit.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tersely.coding.dialects import DIALECTS
from tersely.coding.hook_settings import configured
from tersely.coding.results import BUDGET, THRESHOLD, ResultShortener, complain, write_all
from tersely.settings.folders import data_folder

SECONDS = 10.0
_LARGEST_EVENT = 64 * 2**20

HELP = f"""\
Usage: tersely hook CLIENT [OPTIONS]

  Answer one event of a coding agent. CLIENT is one of
  {", ".join(DIALECTS)}.

  The client starts this for every tool call; `tersely hook install CLIENT` sets
  it up. The event is read from standard input, the answer is written to standard
  output. What tools return is cleaned and masked, and condensed if it is large.

  The options can also be set in hook.json in the data folder, or in variables
  such as TERSELY_HOOK_THRESHOLD.

Options:
  --threshold TOKENS    Leave results up to this size as they are.  [default: {THRESHOLD:,}]
  --budget TOKENS       Size of a condensed result, with its note.  [default: {BUDGET:,}]
  --leave TOOL          Leave this tool's results alone; * is a wildcard. Repeatable.
  --no-mask-workspace   Do not mask files of the agent's own folder when it reads them.
  --no-mask             Do not mask secrets.
  --data-dir FOLDER     Where results are kept; TERSELY_DATA_DIR by default.
  --reader TOOL         Name this tool in notes, instead of `tersely read`: the client has the gateway's.
  --warm                Answer through a helper process, which is started on demand and ends when idle.
  --seconds SECONDS     Time limit, after which the original stays.  [default: {SECONDS:g}]
  -h, --help            Show this message and exit.
"""


class HookOptions(NamedTuple):
    client: str
    threshold: int = THRESHOLD
    budget: int = BUDGET
    leave: tuple[str, ...] = ()
    masks: bool = True
    masks_workspace: bool = True
    data_dir: str = ""
    seconds: float = SECONDS
    reader: str = ""
    unusable: tuple[str, ...] = ()
    """Settings that were left out because of their values."""


_FLAGS = {
    "--no-mask": ("masks", False),
    "--no-mask-workspace": ("masks_workspace", False),
    "--mask-workspace": ("masks_workspace", True),
}


def parse_hook(words: Sequence[str], environment: Mapping[str, str]) -> HookOptions | None:
    """The options of a command line, and where it has none, those that are set; None if it asks for help.

    Raises:
        ValueError: An option is unknown or has a wrong value.
    """
    found: dict[str, Any] = {}
    leave: list[str] = []
    rest = list(words[1:])
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        if word in ("-h", "--help"):
            return None
        if word == "--warm":
            continue  # `launch` has seen it.
        if word in _FLAGS:
            found[_FLAGS[word][0]] = _FLAGS[word][1]
            continue
        kinds: Mapping[str, Any] = {
            "--threshold": int,
            "--budget": int,
            "--seconds": float,
            "--data-dir": str,
            "--leave": str,
            "--reader": str,
        }
        if word not in kinds or not (equals or rest):
            raise ValueError(f"There is no option {word}." if word not in kinds else f"{word} needs a value.")
        given = kinds[word](value if equals else rest.pop(0))
        if word == "--leave":
            leave.append(given)
        else:
            found[word[2:].replace("-", "_")] = given
    if found.get("budget", BUDGET) < 200:
        raise ValueError("--budget must be at least 200.")
    settings, unusable = configured(found.get("data_dir") or data_folder(environment), environment)
    named = (*leave, *settings.pop("leave", ()))
    return HookOptions(words[0], leave=named, unusable=tuple(unusable), **{**settings, **found})


def hook(words: Sequence[str], environment: Mapping[str, str], raw: bytes | None = None) -> int:
    """Answer the event on standard input; always 0, unless the command line itself is wrong.

    Args:
        raw: The event, if it was read already.
    """
    try:
        options = parse_hook(words, environment)
    except ValueError as problem:
        complain(f"{problem} See tersely hook {words[0]} --help.")
        return 1  # 2 would make some clients refuse the tool call.
    if options is None:
        sys.stdout.write(HELP)
        return 0
    shortener = _shortener(options, environment)
    for name in options.unusable:
        shortener.log(f"hook setting {name!r} cannot be used", ValueError())
    try:
        cancel = _limit(options.seconds, shortener)
        if environment.get("TERSELY_OFF", "") in ("", "0"):
            answer = answer_to(_read_event() if raw is None else raw, options, environment)
            cancel()  # An answer is written whole.
            write_all(1, answer)
    except BaseException as problem:  # noqa: BLE001
        # Broad, because no error of ours may reach the agent.
        shortener.log(f"hook {options.client}", problem)
    return 0


def answer_to(raw: bytes, options: HookOptions, environment: Mapping[str, str]) -> bytes:
    """The answer to one event; empty if there is nothing to say."""
    dialect = DIALECTS[options.client]
    is_before = dialect.replace is None or f'"{dialect.result}"'.encode() not in raw
    if is_before and b"[MASKED:" not in raw and f'"{dialect.tool}"'.encode() in raw:
        return b""  # Most calls: nothing has to be parsed.
    import json

    event = json.loads(raw)
    if not isinstance(event, dict):
        return b""
    from tersely.coding.tool_hook import ToolHook

    answering = ToolHook(
        _shortener(options, environment),
        client=options.client,
        masks_workspace=options.masks_workspace,
        leave=options.leave,
        reader=options.reader,
    )
    answer = answering.answer(event)
    return b"" if answer is None else json.dumps(answer).encode()


def _shortener(options: HookOptions, environment: Mapping[str, str]) -> ResultShortener:
    return ResultShortener(
        environment,
        folder=options.data_dir,
        threshold=options.threshold,
        budget=options.budget,
        masks=options.masks,
    )


def _limit(seconds: float, shortener: ResultShortener) -> Callable[[], object]:
    """End the process without an answer when the time is up; the function that is returned cancels that."""

    def stop(*signalled: object) -> None:
        shortener.log("hook", TimeoutError())
        os._exit(0)

    seconds = max(0.05, seconds)
    if not hasattr(signal, "setitimer"):  # Windows
        from threading import Timer

        timer = Timer(seconds, stop)
        timer.daemon = True
        timer.start()
        return timer.cancel
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return lambda: signal.setitimer(signal.ITIMER_REAL, 0)


def _read_event() -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(0, 2**20):
        parts.append(part)
        size += len(part)
        if size > _LARGEST_EVENT:
            raise MemoryError
    return b"".join(parts)
