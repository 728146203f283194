"""`tersely run`: exit codes, signals, both streams, large outputs kept, and no output lost, with real commands."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tersely.coding.capture import ERR, MOST_TAIL, OUT, Capture, CapturedText
from tersely.coding.run import RunOptions, UsageProblem, needs_terminal, parse_run
from tersely.text.tokens import O200K

pytestmark = pytest.mark.process

STEPS = 'for i in $(seq 1 4000); do echo "step $i of the build: module_$i compiled"; done'
SECRET = "hunter2hunter2"


def tersely(
    *words: str, data: Path, merged: bool = False, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tersely", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
        env={**os.environ, "TERSELY_DATA_DIR": str(data), **(env or {})},
        check=False,
        timeout=120,
    )


def handle_in(text: str) -> str:
    (handle,) = set(re.findall(r"tersely read (r_[0-9a-z]{16})", text))
    return str(handle)


def test_a_small_output_appears_as_it_is_with_exit_code_and_both_streams(tmp_path: Path) -> None:
    script = f"echo one; echo two >&2; printf three; echo password={SECRET} >&2; exit 3"
    done = tersely("run", "-c", script, data=tmp_path)
    assert (done.returncode, done.stdout) == (3, "one\nthree")
    assert done.stderr.startswith("two\npassword=[MASKED:password:") and SECRET not in done.stderr
    merged = tersely("run", "--no-mask", "-c", script, data=tmp_path, merged=True)
    # Lines are placed where they ended; the one without an end comes last.
    assert merged.stdout == f"one\ntwo\npassword={SECRET}\nthree"


def test_a_large_output_is_condensed_and_kept_and_a_failure_is_shown(tmp_path: Path) -> None:
    script = f"echo warming up >&2; {STEPS}; echo 'token: {SECRET}x9'; echo all is lost >&2; exit 7"
    done = tersely("run", "--looking-for", "module_1234", "-c", script, data=tmp_path, merged=True)
    assert done.returncode == 7
    assert O200K.count(done.stdout.rstrip("\n")) <= 1000
    assert "all is lost" in done.stdout and "module_1234 compiled" in done.stdout
    assert "Failed with exit code 7." in done.stdout and "TERSELY_OFF=1" in done.stdout
    assert SECRET not in done.stdout
    handle = handle_in(done.stdout)
    spooled = tmp_path / "spool" / f"{handle}.kept"
    assert spooled.stat().st_mode & 0o777 == 0o600 and spooled.parent.stat().st_mode & 0o777 == 0o700
    read = tersely("read", handle, data=tmp_path)
    lines = read.stdout.splitlines()
    assert (lines[0], lines[1], lines[4000], lines[-1]) == (
        "warming up",
        "step 1 of the build: module_1 compiled",
        "step 4000 of the build: module_4000 compiled",
        "all is lost",
    )
    assert SECRET not in read.stdout and not spooled.exists()
    assert "module_77 " in tersely("read", handle, "--lines", "78:78", data=tmp_path).stdout, "it is in the store now"


def test_each_stream_keeps_its_reader_and_both_share_the_budget(tmp_path: Path) -> None:
    script = f'{STEPS}; for i in $(seq 1 3000); do echo "warning: thing $i looks odd" >&2; done'
    done = tersely("run", "-c", script, data=tmp_path)
    assert "warning" not in done.stdout and "step" not in done.stderr
    assert O200K.count(done.stdout) + O200K.count(done.stderr) <= 1002  # two line ends
    assert handle_in(done.stdout) != handle_in(done.stderr)


@pytest.mark.parametrize("way", ["--raw", "TERSELY_OFF"])
def test_the_escape_hatch_runs_the_command_unchanged(tmp_path: Path, way: str) -> None:
    words = ("--raw",) if way == "--raw" else ()
    off = {"TERSELY_OFF": "1"} if way == "TERSELY_OFF" else {}
    done = tersely("run", *words, "-c", f"{STEPS}; echo key={SECRET}; exit 4", data=tmp_path, env=off)
    assert (done.returncode, done.stdout.count("\n")) == (4, 4001) and SECRET in done.stdout
    assert not (tmp_path / "spool").exists()


def test_a_signal_that_ends_the_command_ends_us(tmp_path: Path) -> None:
    assert tersely("run", "-c", "echo before; kill -9 $$", data=tmp_path).returncode == -signal.SIGKILL
    missing = tersely("run", "--", "no-such-program-anywhere", data=tmp_path)
    assert missing.returncode == 127 and "No such file" in missing.stderr


def test_on_sigterm_what_there_is_is_shown(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tersely", "run", "-c", f"{STEPS}; echo waiting; exec sleep 600"]
    env = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        deadline = time.monotonic() + 60
        while not _commands_below(process.pid).startswith("sleep"):
            assert time.monotonic() < deadline
        process.terminate()
        shown, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert "waiting" in shown and "Stopped by signal 15." in shown and handle_in(shown)


def _commands_below(pid: int) -> str:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return " ".join(Path(f"/proc/{child}/cmdline").read_text() for child in children if Path(f"/proc/{child}").exists())


def test_a_timeout_shows_what_there_is(tmp_path: Path) -> None:
    done = tersely("run", "--timeout", "0.5", "-c", "echo started; exec sleep 600", data=tmp_path)
    assert (done.returncode, done.stdout) == (124, "started\n")


def test_endless_output_is_streamed_and_still_masked(tmp_path: Path) -> None:
    script = f"echo first; sleep 0.6; echo password={SECRET}; for i in $(seq 1 4000); do echo $i line of text; done"
    done = tersely("run", "--stream-after", "0.2", "-c", script, data=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("first\npassword=[MASKED:password:")
    assert done.stdout.count("\n") == 4002 and SECRET not in done.stdout


def test_secrets_of_several_lines_are_masked_while_streaming(tmp_path: Path) -> None:
    body = ["MIIEowIBAAKCAQEA7c1Qm8vKx1Lw5pRn7YcHd0bG", "fJ2sUeA4zTkD3nQ8vLx1mW5tRzYpUcHuEo9sJ7fG"]
    lines = [
        "-----BEGIN RSA PRIVATE KEY-----",
        *body,
        "-----END RSA PRIVATE KEY-----",
        'password: "Qm4xTr8zWq',
        '  Lw2kPz77Vb"',
        "z",
    ]
    body += ["Qm4xTr8zWq", "Lw2kPz77Vb"]
    script = "echo first; sleep 0.4; " + "; sleep 0.05; ".join(f"echo '{line}'" for line in lines) + "; printf last"
    done = tersely("run", "--stream-after", "0.2", "-c", script, data=tmp_path)
    assert done.stdout.startswith("first\n[MASKED:private_key:") and done.stdout.endswith("\nz\nlast")
    assert not any(line in done.stdout for line in body)


def test_binary_output_passes(tmp_path: Path) -> None:
    content = bytes(range(256)) * 400
    (tmp_path / "data").write_bytes(content)
    command = [sys.executable, "-m", "tersely", "run", "--", "cat", str(tmp_path / "data")]
    env = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path)}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, check=True)
    assert done.stdout == content
    hidden = tersely("run", "-c", f"printf 'a\\0b password={SECRET}'", data=tmp_path)
    assert SECRET not in hidden.stdout, "a zero byte does not make a text binary"


def test_what_the_command_leaves_behind_keeps_its_output_masked(tmp_path: Path) -> None:
    done = tersely("run", "-c", f"(sleep 1; echo later; echo password={SECRET}) & echo now; exit 5", data=tmp_path)
    assert done.returncode == 5 and done.stdout.startswith("now\nlater\npassword=[MASKED:")
    assert SECRET not in done.stdout


def test_without_a_place_to_write_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = {"TMPDIR": str(tmp_path / "file" / "below"), "HOME": str(tmp_path / "file")}
    done = tersely("run", "-c", f"{STEPS}; exit 9", data=tmp_path / "file" / "data", env=blocked)
    assert done.returncode == 9 and "The whole could not be kept." in done.stdout


def test_a_terminal_program_gets_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not needs_terminal(["vim", "x"]), "without a terminal there is none to give"
    ours, theirs = pty.openpty()
    script = "import os,sys; os.execvp(sys.argv[1], sys.argv[1:])"
    less = tmp_path / "less"
    less.write_text("#!/bin/sh\ntest -t 1 && echo has a terminal\n")
    less.chmod(0o755)
    command = [sys.executable, "-c", script, sys.executable, "-m", "tersely", "run", "--", str(less)]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        assert process.wait(60) == 0
    assert b"has a terminal" in os.read(ours, 1000)
    os.close(ours)


def test_the_capture_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    capture = Capture(str(tmp_path))
    capture.most_spooled = 24_000_000
    block = b"x" * 99 + b"\n"
    for _ in range(600):
        capture.add(OUT, block * 1000)
        capture.add(ERR, b"e\n")
    assert not list(tmp_path.iterdir()), "the file has no name"
    total, dropped = 600 * 100_002, capture.dropped
    assert capture.size_of(OUT) + capture.size_of(ERR) == capture.size == total - dropped
    ours = f"({dropped} bytes of the output are missing here)\n".encode()
    whole = CapturedText(capture, OUT)
    whole.read(7)
    whole.seek(0)
    assert (whole.read(150), len(whole.read())) == (block + b"x" * 50, capture.size_of(OUT) + len(ours) - 150)
    pieces = capture.take()
    assert sum(len(data) for _, data in pieces) == total - dropped + len(ours) <= 24_000_000 + MOST_TAIL + 100
    assert pieces[:4] == [(OUT, block * 1000), (ERR, b"e\n"), (OUT, block * 1000), (ERR, b"e\n")]
    assert pieces[-1] == (ERR, b"e\n")


LIMITED = """
import sys, tersely.text.spooled as spooled
spooled.MOST_AT_ONCE, spooled.MOST_SPOOLED = 400_000, 4_000_000
spooled.SpooledText.parts.__defaults__ = (150_000,)
from tersely.launch import launch
launch()
"""
"""`tersely` that reads in parts what other texts are read whole, so that the test needs no hundreds of megabytes."""


@pytest.mark.parametrize("limit", ["none", "disk", "size"])
def test_a_very_large_output_is_read_and_kept_whole_as_far_as_there_is_room(tmp_path: Path, limit: str) -> None:
    count = 100_000 if limit == "size" else 30_000
    script = (
        f"BEGIN {{ for (i = 1; i <= {count}; i++) {{"
        ' print "2026-11-16T07:00:00Z INFO request " i " served by shop-" i % 7;'
        f' if (i == 15000) print "2026-11-16T07:00:01Z ERROR payments-db refused, password={SECRET}" }}'
        ' print "gave up" > "/dev/stderr"; exit 3 }'
    )
    limiting = "ulimit -f 1800; " if limit == "disk" else ""
    command = ["/bin/sh", "-c", f'{limiting}exec "$@"', "sh", sys.executable, "-c", LIMITED, "run", "--", "awk", script]
    env = {**os.environ, "TERSELY_DATA_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    out, both = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, stdout=out, stderr=both, text=True, env=env, check=False, timeout=120)
    assert done.returncode == 3 and "Failed with exit code 3." in done.stdout
    assert O200K.count(done.stdout.rstrip("\n")) <= 1000 and SECRET not in done.stdout
    assert "\ngave up\n" in done.stdout, "the end of a failed command"
    missing = re.search(r"([\d,]+) bytes of it were neither read nor kept", done.stdout)
    kept = tersely("read", handle_in(done.stdout), data=tmp_path).stdout
    if limit == "none":
        assert not missing and "30002 lines" in done.stdout and "ERROR 1" in done.stdout
        assert "ERROR payments-db refused, password=[MASKED:" in done.stdout
        assert kept.count("\n") == 30_002 and "ERROR payments-db refused" in kept.splitlines()[15_000]
    else:
        assert missing, "what is not read is said"
        assert f"({missing[1].replace(',', '')} bytes of the output are missing here)" in kept


def test_wrong_words_are_refused_with_a_sentence() -> None:
    for words in (["--budget", "ten", "--", "ls"], ["--nope", "ls"], ["--"], ["--timeout"]):
        with pytest.raises(UsageProblem):
            parse_run(words)
    assert parse_run(["--budget=300", "ls", "--help"]) == RunOptions(("ls", "--help"), budget=300)
    assert parse_run(["-h"]) is None
