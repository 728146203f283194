"""`tersely run -- COMMAND …`: runs a command and shows its output, shortened if it is large.

The exit code and signals of the command are passed on. Small outputs appear as they are,
large ones condensed, with the whole kept; see `HELP` for the rest. Whatever fails here,
the command's output and exit code come through.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from errno import ENOENT
from itertools import groupby
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tersely.coding.capture import ERR, OUT, Capture, CapturedText, Piece
from tersely.coding.results import BUDGET, THRESHOLD, ResultShortener, complain, write_all
from tersely.masking.masked import NOTHING
from tersely.pipeline.one_shot import BYTES_PER_TOKEN, OneShot
from tersely.settings.folders import temporary_folder
from tersely.text.spooled import MOST_AT_ONCE, SpooledText

if TYPE_CHECKING:
    from tersely.pipeline.core import NoteWriter

HELP = f"""\
Usage: tersely run [OPTIONS] -- COMMAND [ARGUMENTS]...
       tersely run [OPTIONS] -c 'SCRIPT FOR /bin/sh'

  Run a command and show its output in the tokens a model can spend.

  Output up to --threshold is shown as it is. More is condensed to --budget; the
  whole is kept, and a note says how to read it. Secrets are masked, hidden
  characters removed. Exit code and signals are those of the command; what a
  failed command wrote last is always shown. Binary output passes unchanged, and
  so do programs that need a terminal.

  tersely run -- npm test
  tersely run --looking-for "why does it fail" -c 'make 2>&1 | tee build.log'

Options:
  --looking-for TEXT      What you want to know; decides what stays.
  --threshold TOKENS      Show up to this size as it is.  [default: {THRESHOLD:,}]
  --budget TOKENS         Size of a condensed output, with its note.  [default: {BUDGET:,}]
  --timeout SECONDS       Stop the command then (exit code 124) and show what there is.
  --stream-after SECONDS  From then on, show every line as it comes.  [default: 300; 5 for tail -f and the like]
  --no-mask               Leave secrets in the output.
  --raw                   Run the command unchanged, as TERSELY_OFF=1 does.
  -c SCRIPT               Run a script instead of a command.
  -h, --help              Show this message and exit.
"""

WHOLE = "Unshortened: TERSELY_OFF=1 before the command."
_STREAM_AFTER, _FOLLOWS_AFTER = 300.0, 5.0
_GRACE = 2.0
"""Seconds that a command has to end after a signal, before what there is is shown."""
_IDLE = 0.3
"""Seconds without output after which the output of an ended command counts as complete, though others hold its pipe."""

_NEED_A_TERMINAL = frozenset(
    (
        "vi",
        "vim",
        "nvim",
        "nano",
        "emacs",
        "pico",
        "less",
        "more",
        "most",
        "man",
        "top",
        "htop",
        "btop",
        "atop",
        "iotop",
        "nmon",
        "watch",
        "tmux",
        "screen",
        "fzf",
        "mc",
        "ranger",
        "nnn",
        "lazygit",
        "tig",
        "gitui",
        "k9s",
        "ssh",
        "telnet",
        "mosh",
        "sftp",
        "ftp",
        "passwd",
        "su",
        "login",
        "visudo",
        "crontab",
        "gdb",
        "lldb",
        "pdb",
        "ipython",
        "psql",
        "mysql",
        "sqlite3",
        "mongosh",
        "redis-cli",
        "dialog",
        "whiptail",
        "aptitude",
        "alsamixer",
        "ncdu",
    )
)
"""Programs that draw on a terminal or read from it, unless they are given something else to do."""
_ONLY_WITHOUT_ARGUMENTS = frozenset(
    (
        "ssh",
        "telnet",
        "mosh",
        "sftp",
        "ftp",
        "gdb",
        "lldb",
        "psql",
        "mysql",
        "sqlite3",
        "mongosh",
        "redis-cli",
        "crontab",
        "su",
        "ipython",
    )
)
_SHELLS = frozenset(
    ("bash", "sh", "zsh", "fish", "dash", "ksh", "python", "python3", "node", "irb", "ghci", "R", "julia")
)
_FOLLOWING = frozenset(("-f", "-F", "--follow", "-w", "--watch", "serve", "dev", "start", "runserver"))


class RunOptions(NamedTuple):
    command: Sequence[str]
    looking_for: str = ""
    threshold: int = THRESHOLD
    budget: int = BUDGET
    timeout: float = 0.0
    stream_after: float | None = None
    masks: bool = True
    raw: bool = False


class UsageProblem(Exception):
    """The arguments cannot be used; the message says why."""


def parse_run(arguments: Sequence[str]) -> RunOptions | None:
    """The options of a command line; None if it asks for help.

    Raises:
        UsageProblem: An option is unknown or has a wrong value, or there is no command.
    """
    found: dict[str, object] = {}
    at = 0
    while at < len(arguments):
        word, equals, value = arguments[at].partition("=")
        if word in ("-h", "--help"):
            return None
        if word == "--":
            at += 1
            break
        if not word.startswith("-"):
            break
        if word in ("--raw", "--no-mask"):
            found |= {"raw": True} if word == "--raw" else {"masks": False}
            at += 1
            continue
        if word not in ("--looking-for", "--threshold", "--budget", "--timeout", "--stream-after", "-c"):
            raise UsageProblem(f"There is no option {word}. Put -- before the command; see tersely run --help.")
        if not equals:
            if at + 1 >= len(arguments):
                raise UsageProblem(f"{word} needs a value.")
            at += 1
            value = arguments[at]
        at += 1
        found[word.lstrip("-").replace("-", "_")] = _value_of(word, value)
    script = found.pop("c", None)
    command = tuple(arguments[at:])
    if script is not None:
        command = ("/bin/sh", "-c", str(script), *command)
    if not command:
        raise UsageProblem("There is no command. Example: tersely run -- npm test")
    return RunOptions(command, **found)  # type: ignore[arg-type]


def _value_of(option: str, value: str) -> object:
    if option in ("--looking-for", "-c"):
        return value
    least = 200 if option == "--budget" else 0
    try:
        number = int(value) if option in ("--threshold", "--budget") else float(value)
    except ValueError:
        number = -1
    if not least <= number < 1e9:
        raise UsageProblem(f"{option} {value!r} must be a number of at least {least}.")
    return number


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command line and return the exit code; a signal that ended the command ends this process too."""
    try:
        options = parse_run(arguments)
    except UsageProblem as problem:
        complain(str(problem))
        return 2
    if options is None:
        sys.stdout.write(HELP)
        return 0
    if options.raw or environment.get("TERSELY_OFF", "") not in ("", "0") or needs_terminal(options.command):
        _replace_process(options.command, environment)
    return _CommandRun(options, environment).run()


def needs_terminal(command: Sequence[str]) -> bool:
    """Whether the program draws on a terminal, and there is one."""
    if not (os.isatty(0) and os.isatty(1)):
        return False
    name = os.path.basename(command[0])  # noqa: PTH119
    has_work = any(not word.startswith("-") for word in command[1:])
    if name in _SHELLS:
        return not has_work and not any(word in ("-c", "-m", "-e", "--version", "-V") for word in command[1:])
    if name in _ONLY_WITHOUT_ARGUMENTS:
        return len([word for word in command[1:] if not word.startswith("-")]) <= 1
    return name in _NEED_A_TERMINAL or (name == "git" and bool({"-i", "-p", "--interactive", "--patch"} & {*command}))


MOST_HELD = 16_384
"""Bytes of a streamed output that are held back while they may be a part of a secret."""


def _replace_process(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    _restore_signals()
    try:
        os.execvpe(command[0], list(command), dict(environment))
    except OSError as problem:
        complain(f"{command[0]}: {problem.strerror}")
        os._exit(127 if isinstance(problem, FileNotFoundError) else 126)


def _restore_signals() -> None:
    """Undo what the interpreter ignores, so that commands behave as they do in a shell."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


class _CommandRun:
    """One command, from its start to its exit."""

    def __init__(self, options: RunOptions, environment: Mapping[str, str]) -> None:
        self.options = options
        self.environment = environment
        self.shortener = ResultShortener(
            environment, threshold=options.threshold, budget=options.budget, masks=options.masks
        )
        self.capture = Capture(temporary_folder(environment))
        self.dropped = 0
        """Bytes in the middle of the output that were not kept."""
        self.streams = False
        """Whether output is shown as it comes."""
        self.received = 0
        """The signal that asks this process to end."""
        self.child = 0
        self.status: int | None = None
        self.timed_out = False
        self.started = time.monotonic()
        follows = bool(_FOLLOWING.intersection(options.command[1:]))
        default = _FOLLOWS_AFTER if follows else _STREAM_AFTER
        self.stream_at = self.started + (default if options.stream_after is None else options.stream_after)
        self.ends_at = self.started + options.timeout if options.timeout else 0.0
        self.stopping = False
        """Whether the command was told to end; at `ends_at` it is killed."""
        self.draws = os.isatty(2)
        self.same_target = _same_file(1, 2)

    def run(self) -> int:
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        code = self._start(out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        if code:
            return code
        try:
            self._read({out: OUT, err: ERR}, wake)
        except BrokenPipeError:
            os.kill(self.child, signal.SIGPIPE)
            _, self.status = os.waitpid(self.child, 0)
            return self._exit_code()
        with suppress(BrokenPipeError):
            if self.streams:
                self._pass_rest()
            else:
                self._show()
        return self._exit_code()

    def _start(self, out_end: int, err_end: int) -> int:
        """Start the command; the exit code if it could not be started, or 0."""
        failed, failed_end = os.pipe()
        # Known at once, so that a signal that comes while the command starts reaches it.
        self.child = child = os.fork()
        if child == 0:
            try:
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
                    if signal.getsignal(number) is not signal.SIG_IGN:
                        signal.signal(number, signal.SIG_DFL)
                _restore_signals()
                os.dup2(out_end, 1)
                os.dup2(err_end, 2)
                os.execvpe(self.options.command[0], list(self.options.command), dict(self.environment))
            except OSError as problem:
                os.write(failed_end, str(problem.errno or 0).encode())
            finally:
                os._exit(127)
        os.close(failed_end)
        errno = os.read(failed, 20)
        os.close(failed)
        if errno:
            os.waitpid(child, 0)
            complain(f"{self.options.command[0]}: {os.strerror(int(errno))}")
            return 127 if int(errno) == ENOENT else 126
        return 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # From a terminal, the command gets the signal itself.
        if self.status is None and not (number in (signal.SIGINT, signal.SIGQUIT) and os.isatty(0)):
            self._send(number)
        self.received = self.received or number

    def _send(self, number: int) -> None:
        if self.child:  # 0 would be everyone in this process group.
            try:
                os.kill(self.child, number)
            except ProcessLookupError:
                return

    def _read(self, pipes: dict[int, int], wake: int) -> None:
        """Read both pipes until they end, the command has ended, or there is no more time."""
        import select

        poll = select.poll()
        for pipe in (*pipes, wake):
            poll.register(pipe, select.POLLIN)
        last_output = time.monotonic()
        while pipes:
            now = time.monotonic()
            if self.status is not None and now - last_output >= _IDLE:
                self._leave_rest(pipes)
                return
            if self._is_over(now):
                return
            if not self.streams and (self.capture.is_binary or now >= self.stream_at):
                self._stream()
            self._show_progress(now)
            for ready, _ in poll.poll(self._wait(now) * 1000 + 1):
                if ready == wake:
                    os.read(wake, 512)
                    continue
                data = os.read(ready, 65536)
                last_output = time.monotonic()
                if not data:
                    poll.unregister(ready)
                    del pipes[ready]
                elif self.streams:
                    self._pass_on(pipes[ready], data)
                else:
                    self.capture.add(pipes[ready], data)
            self._reap()
        while self.status is None and not self._is_over(time.monotonic()):
            # Both pipes are closed; the command itself may go on.
            if poll.poll(self._wait(time.monotonic()) * 1000 + 1):
                os.read(wake, 512)
            self._reap()

    def _is_over(self, now: float) -> bool:
        """Stop the command when its time is up; whether there is no more time to wait for it."""
        if self.received and not self.stopping:
            self.stopping, self.ends_at = True, now + _GRACE
        if not self.ends_at or now < self.ends_at:
            return False
        if self.stopping:
            self._send(signal.SIGKILL)
            return True
        self.timed_out = self.stopping = True
        self._send(signal.SIGTERM)
        self.ends_at = now + _GRACE
        return False

    def _wait(self, now: float) -> float:
        """Seconds until something has to be done, unless there is output before."""
        until = [at for at in (self.ends_at, 0.0 if self.streams else self.stream_at) if at]
        waits = [60.0, *(at - now for at in until)]
        if self.status is not None:
            waits.append(_IDLE)
        elif self.draws and not self.streams:
            waits.append(1.0)
        return max(0.0, min(waits))

    def _show_progress(self, now: float) -> None:
        if self.draws and not self.streams and now - self.started >= 1:
            write_all(2, f"\r  {self.capture.lines:,} lines …".encode())

    def _reap(self) -> None:
        if self.status is None:
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                self.status = status

    def _leave_rest(self, pipes: dict[int, int]) -> None:
        """The command has ended, but something it started still has its output open: show that as it comes."""
        if not self.streams:
            self._show()
            self.streams = True
        self._pass_rest()
        if os.fork():
            return
        import select

        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        try:
            while pipes:
                for ready in select.select(list(pipes), [], [])[0]:
                    data = os.read(ready, 65536)
                    if data:
                        self._pass_on(pipes[ready], data)
                    else:
                        del pipes[ready]
            self._pass_rest()
        finally:
            os._exit(0)

    # What is shown

    def _stream(self) -> None:
        """Show what there is, and from now on everything as it comes."""
        is_binary = self.capture.is_binary
        if is_binary:
            for stream, data in self.capture.take():
                write_all(1 + stream, data)
        else:
            self._show()
        self.streams = True
        self.capture.is_binary = is_binary

    def _pass_on(self, stream: int, data: bytes) -> None:
        """Show output that comes after the switch to streaming: masked line by line, unless it is binary."""
        if self.capture.is_binary:
            write_all(1 + stream, data)
            return
        self.capture.add(stream, data)
        if self.capture.is_binary or (data.endswith(b"\n") and not self._holds_back()):
            self._pass_rest()

    def _pass_rest(self) -> None:
        """Show what was held back."""
        is_binary = self.capture.is_binary
        for number, pieces in groupby(self.capture.take(), key=lambda piece: piece[0]):
            data = b"".join(piece for _, piece in pieces)
            write_all(1 + number, data if is_binary else self._masked(data))
        self.capture.is_binary = is_binary

    def _holds_back(self) -> bool:
        """Whether the output ends inside of a secret of several lines, whose parts alone would not be masked."""
        if self.capture.size > MOST_HELD:
            return False
        from tersely.masking.unfinished import ends_inside_secret

        return any(ends_inside_secret(b"".join(piece for _, piece in self.capture.pieces(at))) for at in (OUT, ERR))

    def _masked(self, piece: bytes) -> bytes:
        from tersely.pipeline.one_shot import admit_once

        try:
            text = piece.decode("utf-8")
            shown = admit_once(text, self.shortener.masker)
        except Exception as problem:  # noqa: BLE001
            # Broad, because no error of ours may cost the caller its output.
            self.shortener.log("run", problem)
            return piece
        return piece if shown == text else shown.encode("utf-8", "replace")

    def _show(self) -> None:
        """Show what was captured; after any error of ours as it came."""
        if self.draws:
            write_all(2, b"\r\x1b[K")
        self.dropped = self.capture.dropped
        try:
            shown: Iterable[Piece] = self._shortened()
        except Exception as problem:  # noqa: BLE001
            # Broad, because no error of ours may cost the caller its output.
            self.shortener.log("run", problem)
            shown = self.capture.pieces()
        for stream, data in shown:
            write_all(1 + stream, data)
        self.capture.clear()

    def _shortened(self) -> Iterable[Piece]:
        """What to write: the pieces as they are, or one text for each stream; one for both if they have one reader."""
        budget, threshold = self.options.budget, self.options.threshold
        streams = (None,) if self.same_target else (OUT, ERR)
        sizes = [self.capture.size_of(stream) for stream in streams]
        larger = ERR if len(sizes) > 1 and sizes[ERR] > sizes[OUT] else OUT
        is_large = min(sizes) > 0 and len(sizes) > 1 and sum(sizes) > threshold * BYTES_PER_TOKEN
        share = budget // 3 if is_large else 0
        results: list[OneShot | None] = [None for _ in streams]
        results[larger] = self._processed(streams[larger], threshold, budget - share)
        if len(sizes) > 1 and sizes[1 - larger]:
            results[1 - larger] = self._processed(streams[1 - larger], share or threshold, share or budget)
        self._count(results)
        if all(one is None for one in results):
            return self.capture.pieces()
        shown: list[Piece] = []
        for at, result in enumerate(results):
            if result is None:
                shown += self.capture.pieces(streams[at])
            else:
                text = result.text.encode("utf-8", "replace")
                shown.append((at, text + b"\n" if result.condensed else text))
        return shown

    def _processed(self, stream: int | None, threshold: int, budget: int) -> OneShot | None:
        """The output of one stream, or of both for None, after the pipeline; None if it passes unchanged."""
        call: dict[str, Any] = {
            "tool": os.path.basename(self.options.command[0]),  # noqa: PTH119
            "arguments": {"command": list(self.options.command)},
            "call": " ".join(self.options.command),
            "looking_for": self.options.looking_for,
            "note": self._note,
            "budget": budget,
            "shows_end": self.status != 0,
        }
        size = self.capture.size_of(stream)
        try:
            if size > MOST_AT_ONCE and (result := self._processed_in_parts(stream, size, call)):
                return result
            text = _decoded(b"".join(piece for _, piece in self.capture.pieces(stream)))
        except UnicodeError:
            return None
        result = self.shortener.process(text, threshold=threshold, **call)
        return None if result.text == text else result

    def _processed_in_parts(self, stream: int | None, size: int, call: dict[str, Any]) -> OneShot | None:
        """A large output after the pipeline; None if only so much of it can be read as memory holds."""
        if not self.received:  # Else there is no time.
            text = SpooledText(CapturedText(self.capture, stream), size, _decoded)
            try:
                return self.shortener.process_large(self._until_stopped(text), **call)
            except OSError as problem:  # There is no room on a disk.
                self.shortener.log("run", problem)
        self.capture.leave_middle_out()
        self.dropped = self.capture.dropped
        return None

    def _until_stopped(self, text: SpooledText) -> Iterator[str]:
        """The parts of a large output, as far as they can be read before a signal."""
        read = 0
        for part in text.parts():
            if self.received:
                self.dropped += text.size - read
                yield f"({text.size - read} bytes of the output are missing here)\n"
                return
            read += len(part.encode("utf-8", "replace"))
            yield part
            if self.draws:
                write_all(2, f"\r  read {read * 100 // text.size} % …".encode())
        if self.draws:
            write_all(2, b"\r\x1b[K")

    def _count(self, results: list[OneShot | None]) -> None:
        done = [one for one in results if one]
        shown = OneShot(
            NOTHING,
            tokens_before=sum(one.tokens_before for one in done),
            tokens_after=sum(one.tokens_after for one in done),
            condensed=any(one.condensed for one in done),
        )
        self.shortener.count("run", os.path.basename(self.options.command[0]), shown)  # noqa: PTH119

    def _note(self) -> "NoteWriter":
        from tersely.coding.notes import ShellNoteWriter

        return ShellNoteWriter(ending=f"{self._ending()} {self._missing()}".strip(), whole=WHOLE)

    def _missing(self) -> str:
        if not self.dropped:
            return ""
        return f"{self.dropped:,} bytes of it were neither read nor kept; write it to a file to search them."

    def _ending(self) -> str:
        if self.timed_out:
            return f"Stopped after {self.options.timeout:g} s."
        if self.received:
            return f"Stopped by signal {self.received}."
        if self.status is None:
            return "Still running; the rest is shown as it comes."
        if os.WIFSIGNALED(self.status):
            return f"Ended by signal {os.WTERMSIG(self.status)}."
        code = os.WEXITSTATUS(self.status)
        return f"Failed with exit code {code}." if code else ""

    def _exit_code(self) -> int:
        if self.received and (self.status is None or os.WIFSIGNALED(self.status)):
            _end_by(self.received)
        if self.timed_out:
            return 124
        if self.status is None:
            _, self.status = os.waitpid(self.child, 0)
        if os.WIFSIGNALED(self.status):
            _end_by(os.WTERMSIG(self.status))
        return os.WEXITSTATUS(self.status)


def _decoded(data: bytes) -> str:
    """
    Raises:
        UnicodeError: The data is binary.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        from tersely.errors import InputError
        from tersely.text.decoding import decoded

        try:
            return decoded(data)
        except InputError as problem:
            raise UnicodeError from problem


def _end_by(number: int) -> NoReturn:
    """End this process by a signal, so that its parent sees what the command's would have seen."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _same_file(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same place."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
