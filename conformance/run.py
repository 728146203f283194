"""`make conformance`: run the official MCP suite, both requirement sets, against `tersely serve` and `tersely gateway`.

    tersely serve          a server with two tools; expected-<revision>.yml lists the checks it cannot pass
    a full server          fixture.py, which has every feature the suite checks
    … behind the gateway   the same through `tersely gateway`
    … behind a proxy       the same through FastMCP's `create_proxy`, for comparison

Checks that pass with the full server must pass through the gateway. expected-gateway.yml lists each exception with its
reason; there must be fewer than the proxy has. The run fails if an exception is not listed, or is listed and passes.
Scenarios that the revisions do not score (extensions, pending ones) count like the others.

Needs Node 22; the npm package `node` provides one. Without npm the run is skipped with a message and exit code 0: the
suite is external, and `make test` does not depend on it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import yaml

from conformance.processes import FIXTURE, PROXY, TERSELY, listening

HERE = Path(__file__).parent
TOOLS = HERE / "node_modules" / ".bin"
REVISIONS = ("2025-11-25", "2026-07-28")
DIRECT, GATEWAY, CREATE_PROXY = "direct", "tersely gateway", "create_proxy"

Results = dict[str, str]
"""The worst status of each check, by `scenario:check`."""
SEVERITY = ("SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("serve", "gateway"), help="one of the two halves")
    parser.add_argument("--details", action="store_true", help="show the suite's message for each of our exceptions")
    options = parser.parse_args()
    if not shutil.which("npm"):
        sys.stdout.write("conformance: skipped, there is no npm on this machine\n")
        return 0
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, check=True)
    # The `node` package unpacks its binary in an install script, which npm no longer runs by default.
    if not (HERE / "node_modules" / "node" / "bin" / "node").exists():
        subprocess.run(["npm", "rebuild", "node", "--silent"], cwd=HERE, check=True)
    failed = 0
    with ThreadPoolExecutor() as lanes:
        # The proxy takes longest and mostly waits, so it runs concurrently with the others.
        slow = lanes.submit(_way, CREATE_PROXY) if options.only != "serve" else None
        if options.only != "gateway":
            with listening([*TERSELY, "serve", "--port", "0"]) as server:
                failed = max(_serve(server.address, revision) for revision in REVISIONS)
        if slow is not None:
            ways = {DIRECT: _way(DIRECT), GATEWAY: _way(GATEWAY), CREATE_PROXY: slow.result()}
            failed = max(failed, _compare(ways, details=options.details))
    return failed


# tersely serve


def _serve(address: str, revision: str) -> int:
    expected = HERE / f"expected-{revision}.yml"
    run = _suite(address, revision, "--expected-failures", str(expected))
    _, _, summary = run.stdout.partition("=== SUMMARY ===")
    total = re.search(r"Total: (\d+) passed, (\d+) failed", summary)
    if run.returncode or not total:
        sys.stdout.write(f"\n{revision}\n{summary or run.stdout + run.stderr}\n")
        return run.returncode or 1
    sys.stdout.write(
        f"tersely serve, {revision}: {total[1]} checks hold; {total[2]} need what a two-tool server has not: "
        f"{expected.name}\n"
    )
    return 0


# tersely gateway


def _way(way: str) -> dict[str, tuple[Results, dict[str, str]]]:
    """The results of each revision for the full server over this route. Each route has its own server."""
    with ExitStack() as running:
        address = running.enter_context(listening(FIXTURE)).address
        if way == GATEWAY:
            address = running.enter_context(
                listening([*TERSELY, "gateway", "--http", "--port", "0", "--upstream", address])
            ).address
        elif way == CREATE_PROXY:
            address = running.enter_context(listening([*PROXY, address])).address
        return {revision: _checks(address, revision) for revision in REVISIONS}


def _checks(address: str, revision: str) -> tuple[Results, dict[str, str]]:
    results: Results = {}
    said: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        run = _suite(address, revision, "--output-dir", folder, "--timeout", "15000")
        for file in Path(folder).glob("*/checks.json"):
            scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
            for check in json.loads(file.read_text()):
                name = f"{scenario}:{check['id']}"
                if SEVERITY.index(check["status"]) >= SEVERITY.index(results.get(name, SEVERITY[0])):
                    results[name] = check["status"]
                    said[name] = check.get("errorMessage") or ""
    if not results:
        raise SystemExit(f"The suite reported no results for {address} ({revision}):\n{run.stdout}{run.stderr}")
    return results, said


def _compare(ways: dict[str, dict[str, tuple[Results, dict[str, str]]]], *, details: bool) -> int:
    expected: dict[str, dict[str, str]] = yaml.safe_load((HERE / "expected-gateway.yml").read_text()) or {}
    failed = 0
    sys.stdout.write(f"\n{'A full server':<16}" + "".join(f"{way:>26}" for way in ways) + "\n")
    for revision in REVISIONS:
        passing = {name for name, status in ways[DIRECT][revision][0].items() if status == "SUCCESS"}
        lost = {way: {name for name in passing if ways[way][revision][0].get(name) != "SUCCESS"} for way in ways}
        row = "".join(f"{f'{len(passing) - len(lost[way])} pass, {len(lost[way])} lost':>26}" for way in ways)
        sys.stdout.write(f"{revision:<16}{row}\n")
        broken = {name: status for name, status in ways[DIRECT][revision][0].items() if status == "FAILURE"}
        listed = expected.get(revision) or {}
        for name in sorted(broken):
            sys.stdout.write(f"  the full server itself fails {name}: {ways[DIRECT][revision][1][name]}\n")
        for name in sorted(lost[GATEWAY] - listed.keys()):
            sys.stdout.write(
                f"  lost behind the gateway and not listed: {name}: "
                f"{ways[GATEWAY][revision][1].get(name, 'not reached')}\n"
            )
        for name in sorted(listed.keys() - lost[GATEWAY]):
            sys.stdout.write(f"  listed in expected-gateway.yml, but passes: {name}\n")
        for name in sorted(lost[GATEWAY] & listed.keys()) if details else ():
            sys.stdout.write(
                f"  {name}: {listed[name]}\n      the suite: {ways[GATEWAY][revision][1].get(name, 'not reached')}\n"
            )
        if len(lost[GATEWAY]) >= len(lost[CREATE_PROXY]):
            sys.stdout.write(f"  not fewer exceptions than create_proxy ({len(lost[CREATE_PROXY])})\n")
            failed = 1
        if broken or lost[GATEWAY] != listed.keys():
            failed = 1
    sys.stdout.write(
        "Each check that is lost behind the gateway is in expected-gateway.yml, with the reason.\n"
        if not failed
        else ""
    )
    return failed


# Processes


def _suite(address: str, revision: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(TOOLS / "conformance"), "server", "--url", address, "--requirements", revision, *options]
    environment = {**os.environ, "NO_COLOR": "1", "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
