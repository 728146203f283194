"""What the container files promise, without an engine: their commands, run as an unprivileged user."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml
from deploy import pin_images

from tersely.settings.model import documented

ROOT = Path(__file__).parents[1]
NOBODY = 65534


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _instruction(name: str) -> list[str]:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    found: list[str] = json.loads(re.findall(rf"{name} (\[.*\])$", dockerfile, re.MULTILINE)[-1])
    return found


def _unprivileged() -> tuple[str, dict[str, str], dict[str, int]]:
    """An interpreter that a user without rights may run, with our packages on its path, and who that user is."""
    if os.geteuid() != 0:
        return sys.executable, {}, {}
    same = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    site = sysconfig.get_path("purelib")
    for python in (sys.executable, same):
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([python, "-c", "pass"], user=NOBODY, capture_output=True, check=True, cwd="/")
            return python, {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{site}"}, {"user": NOBODY}
    pytest.skip("root runs these tests, and no interpreter of this version may be run by anybody else")


def test_whatever_the_image_copies_is_in_its_context() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    names = {name.rstrip("/") for line in copied for name in line.split()}
    context = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {"src", "requirements/build.txt"} <= names and {f"!{name}" for name in names} <= set(context)
    assert all((ROOT / name).exists() for name in names)


@pytest.mark.process
def test_the_images_command_serves_and_its_health_check_notices_as_an_unprivileged_user() -> None:
    python, path, who = _unprivileged()
    assert _instruction("CMD")[0] == "tersely"
    port = _free_port()
    environment = {
        "PATH": os.environ["PATH"],
        "TERSELY_HOST": "0.0.0.0",
        "MCP_SUMMARIZER_PORT": str(port),
        "HOME": "/nonexistent",
        **path,
    }
    check = [python if word == "python" else word.replace("8007", str(port)) for word in _health_check()]
    down = subprocess.run(check, env=environment, capture_output=True, check=False, timeout=300, **who)  # type: ignore[call-overload]
    assert down.returncode != 0
    command = [python, "-m", *_instruction("CMD")]
    closed = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300, cwd="/", **who)  # type: ignore[call-overload]
    assert closed.returncode != 0 and b"TERSELY_TOKEN" in closed.stderr, "on 0.0.0.0 without a token it does not start"
    environment["TERSELY_ALLOW_OPEN"] = "1"
    service = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, cwd="/", **who)  # type: ignore[call-overload]
    try:
        events: list[str] = []
        while "listening" not in events:
            line = service.stderr.readline()
            assert line, f"the service ended: {events}"
            events.append(json.loads(line)["event"])
        assert "open_to_the_network" in events, "on 0.0.0.0 without a token it warns"
        up = subprocess.run(check, env=environment, capture_output=True, check=False, timeout=300, **who)  # type: ignore[call-overload]
        assert up.returncode == 0, up.stderr
    finally:
        service.terminate()
        service.communicate(timeout=300)


def _health_check() -> list[str]:
    """Compose and image check the same way."""
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    test = compose["services"]["mcp-summarizer"]["healthcheck"]["test"]
    assert test[0] == "CMD"
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert json.dumps(test[1:]) in dockerfile
    return list(test[1:])


def test_the_image_runs_as_an_unprivileged_user() -> None:
    stages = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("FROM ")
    assert re.search(r"^USER (?!root)\w+$", stages[-1], re.MULTILINE)


def test_every_variable_in_compose_and_the_example_is_a_setting() -> None:
    known = {name for name, _, _ in documented()}
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    service = compose["services"]["mcp-summarizer"]
    assert set(service["environment"]) <= known
    assert service["environment"]["TERSELY_ALLOWED_HOSTS"] == "mcp-summarizer"
    model = service["environment"]["LLM_MODEL"]
    assert model == "${SUMMARIZER_LLM_MODEL:-${LLM_MODEL:-openai/gpt-4o-mini}}", "003 §6; LLM_MODEL still counts"
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:# )?([A-Z_]+)=", example, re.MULTILINE)) <= known


def test_no_lock_file_names_a_download_address() -> None:
    for path in [*(ROOT / "requirements").glob("*.txt"), ROOT / "conformance" / "package-lock.json"]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"https?://(?!github\.com/sponsors|opencollective\.com|feross)", re.sub(r'"url": ".*"', "", text)
        ), path
        assert "--hash=sha256:" in text or '"integrity"' in text


def test_two_replicas_on_postgresql_start_with_settings_that_exist_after_the_schema_is_there() -> None:
    known = {name for name, _, _ in documented()}
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    up = services["tersely"]
    assert up["deploy"]["replicas"] == 2 and up["command"] == ["tersely", "up"]
    assert set(up["environment"]) <= known and set(services["migrate"]["environment"]) <= known
    assert up["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert up["environment"]["TERSELY_PORT"] in up["healthcheck"]["test"][-1], "it is asked where it listens"
    grace = next(default for name, default, _ in documented() if name == "TERSELY_GRACE")
    assert float(up["stop_grace_period"].rstrip("s")) > float(grace.strip("`")), "nobody is killed while giving back"


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/compose.yaml"])
def test_services_run_without_rights_they_do_not_need(file: str) -> None:
    for name, service in yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"].items():
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"] and service["pids_limit"], name
        assert service.get("read_only") or name == "postgres", name
        assert not service.get("privileged"), name


def test_everything_in_the_image_is_installed_by_hash() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    commands = [
        part for line in text.splitlines() if line.startswith("RUN") for part in line.split("&&") if "pip " in part
    ]
    assert len(commands) == 4
    for command in commands:
        assert (
            "--require-hashes" in command
            or ("--no-deps" in command and "--no-build-isolation" in command)
            or ("--no-index" in command)
        ), command


def test_the_proxy_passes_on_the_host_that_was_asked_for() -> None:
    text = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")
    assert "proxy_set_header Host $$http_host;" in text


@pytest.mark.process
def test_images_without_a_digest_are_reported_and_pinned_by_whatever_can_ask_a_registry(tmp_path: Path) -> None:
    """No registry is asked here: a program of the same name and arguments stands in for the tool."""
    for name in pin_images.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    digest = f"sha256:{'ab' * 32}"
    tagged = tmp_path / "Dockerfile"
    tagged.write_text(re.sub(r"@sha256:\w+", "", tagged.read_text("utf-8")), "utf-8")
    tools = tmp_path / "tools"
    tools.mkdir()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, pin_images.__file__, "--root", str(tmp_path), *arguments]
        return subprocess.run(command, env={"PATH": str(tools)}, capture_output=True, text=True, check=False)

    reported = run("--check")
    assert reported.returncode == 1 and reported.stderr.count("Dockerfile: python:3.12-slim") == 2
    assert f": {pin_images.OWN}\n" not in reported.stderr, "our own image is built here"
    before = tagged.read_text("utf-8")
    refused = run()
    assert refused.returncode == 1 and pin_images.NO_TOOL in refused.stderr and tagged.read_text("utf-8") == before
    tool = tools / "crane"
    tool.write_text(f"#!/bin/sh\n[ $1 = digest ] && echo {digest}\n", "utf-8")
    tool.chmod(0o755)
    for _ in range(2):  # The second time follows the tags again.
        assert f"python:3.12-slim@{digest}" in run().stdout
        assert (run("--check").returncode, pin_images.unpinned(tmp_path)) == (0, [])
    assert tagged.read_text("utf-8") == before.replace("3.12-slim", f"3.12-slim@{digest}")
    tool.write_text("#!/bin/sh\necho no such image >&2; exit 1\n", "utf-8")
    pinned = tagged.read_text("utf-8")
    assert "could not resolve" in run().stderr and tagged.read_text("utf-8") == pinned
