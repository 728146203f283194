"""`make conformance`: the official MCP suite against a real `tersely serve`, for both requirement sets.

Needs Node 22; the npm package `node` brings one. Where npm is missing, says so and ends well: the suite is
somebody else's, and `make test` does not depend on it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent
REVISIONS = ("2025-11-25", "2026-07-28")


def main() -> int:
    if not shutil.which("npm"):
        sys.stdout.write("conformance: skipped, there is no npm on this machine\n")
        return 0
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=HERE, check=True)
    # The `node` package unpacks its binary in a script that npm no longer runs unasked.
    if not (HERE / "node_modules" / "node" / "bin" / "node").exists():
        subprocess.run(["npm", "rebuild", "node", "--silent"], cwd=HERE, check=True)
    tools = HERE / "node_modules" / ".bin"
    environment = {**os.environ, "NO_COLOR": "1", "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    own = {
        name: value for name, value in os.environ.items() if not name.startswith(("OPENROUTER_", "LLM_", "TERSELY_", "DEFAULT_", "MCP_"))
    }
    server = subprocess.Popen([sys.executable, "-m", "tersely", "serve", "--port", "0"], stderr=subprocess.PIPE, text=True, env=own)
    try:
        assert server.stderr is not None
        address = next(said["address"] for said in map(json.loads, server.stderr) if said["event"] == "listening")
        threading.Thread(target=server.stderr.read, daemon=True).start()
        return max(_suite(address, revision, tools, environment) for revision in REVISIONS)
    finally:
        server.terminate()
        server.wait(timeout=10)


def _suite(address: str, revision: str, tools: Path, environment: dict[str, str]) -> int:
    expected = HERE / f"expected-{revision}.yml"
    command = [tools / "conformance", "server", "--url", address, "--requirements", revision, "--expected-failures", expected]
    run = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    _, _, summary = run.stdout.partition("=== SUMMARY ===")
    total = re.search(r"Total: (\d+) passed, (\d+) failed", summary)
    if run.returncode or not total:
        sys.stdout.write(f"\n{revision}\n{summary or run.stdout + run.stderr}\n")
        return run.returncode or 1
    sys.stdout.write(f"{revision}: {total[1]} checks hold; {total[2]} need what a two-tool server has not, see {expected.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
