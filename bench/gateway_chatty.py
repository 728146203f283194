"""An MCP server with large results, as platform teams run them: pods, logs, rows, metrics, a handbook, a configuration.

    python -m bench.gateway_chatty      over stdio

All of it shows one incident: checkout fails because a connection pool is exhausted. Everything is generated from a
fixed seed, so that the figures of bench.gateway_walkthrough are reproducible.
"""

import json
import random

from fastmcp import FastMCP

server = FastMCP("platform")
_BROKEN = {66: "checkout-7d9f6c5b-x2x9k", 130: "checkout-7d9f6c5b-q8rzt"}
_TEAMS = ("cart", "catalog", "checkout", "ledger", "mail", "search", "shipping", "stock")


@server.tool
def list_pods(namespace: str) -> str:
    """The pods of a namespace, as the cluster describes them."""
    draw = random.Random(1)
    pods = []
    for number in range(240):
        team = _TEAMS[number % len(_TEAMS)]
        broken = number in _BROKEN
        restarts = 41 if broken else draw.randint(0, 1)
        state = (
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app"}}
            if broken
            else {"running": {"startedAt": f"2026-11-{draw.randint(1, 14):02d}T0{draw.randint(0, 9)}:12:00Z"}}
        )
        pods.append(
            {
                "metadata": {
                    "name": _BROKEN.get(number, f"{team}-{draw.getrandbits(32):08x}-{draw.getrandbits(20):05x}"),
                    "namespace": namespace,
                    "uid": f"{draw.getrandbits(64):016x}",
                    "labels": {"app": team, "pod-template-hash": f"{draw.getrandbits(32):08x}", "tier": "backend"},
                },
                "spec": {
                    "nodeName": f"node-{draw.randint(1, 24)}",
                    "containers": [
                        {
                            "name": "app",
                            "image": f"registry.example.org/{team}:4.{draw.randint(0, 9)}.{draw.randint(0, 9)}",
                        }
                    ],
                },
                "status": {
                    "phase": "Running",
                    "podIP": f"10.0.{draw.randint(0, 255)}.{draw.randint(1, 254)}",
                    "containerStatuses": [
                        {"name": "app", "restartCount": restarts, "ready": not broken, "state": state}
                    ],
                },
            }
        )
    return json.dumps({"kind": "PodList", "items": pods}, indent=2)


@server.tool
def pod_logs(app: str, lines: int = 6000) -> str:
    """The last lines that the pods of an app wrote."""
    draw = random.Random(2)
    said = []
    for number in range(lines):
        at = f"2026-11-15T10:{number // 100 % 60:02d}:{number % 60:02d}.{draw.randint(0, 999):03d}Z"
        trace = f"trace={draw.getrandbits(48):012x}"
        said.append(f"{at} INFO {app} {trace} GET /cart/{draw.randint(1, 99999)} 200 in {draw.randint(2, 90)} ms")
        if number % 37 == 0:
            said.append(f"{at} WARN {app} {trace} slow query: 1{draw.randint(10, 99)} ms")
    said[4321] = (
        "2026-11-15T10:43:12.100Z ERROR checkout trace=5f0c1a9e77aa payment failed: pool orders-primary exhausted (20 "
        "of 20 in use)"
    )
    said[4322] = (
        "2026-11-15T10:43:12.101Z ERROR checkout trace=5f0c1a9e77aa order 88121 not stored, giving up after 3 attempts"
    )
    return "\n".join(said)


@server.tool
def query(sql: str) -> str:
    """Rows of the orders database, as CSV."""
    draw = random.Random(3)
    rows = ["order_id,customer,total_eur,status,error_code,updated_at"]
    for number in range(2400):
        total, at = f"{draw.uniform(5, 900):.2f}", f"2026-11-15T10:{number // 60 % 60:02d}:{number % 60:02d}Z"
        rows.append(f"{87000 + number},c-{draw.randint(1, 9999):04d},{total},stored,,{at}")
    rows[1122] = "88121,c-4417,1249.00,failed,POOL_TIMEOUT,2026-11-15T10:43:12Z"
    return "\n".join(rows)


@server.tool
def metrics(job: str) -> str:
    """What a job exports, in the format of Prometheus."""
    draw = random.Random(4)
    said = ["# HELP http_requests_total Requests served.", "# TYPE http_requests_total counter"]
    for path in range(180):
        for code, most in (("200", 99999), ("404", 20), ("500", 20)):
            said += [f'http_requests_total{{path="/api/v1/items/{path}",code="{code}"}} {draw.randint(0, most)}']
    said += ["# HELP db_pool_in_use Connections in use.", "# TYPE db_pool_in_use gauge"]
    said += [f'db_pool_in_use{{pool="{team}-replica"}} {draw.randint(1, 6)}' for team in _TEAMS]
    said += [
        'db_pool_in_use{pool="orders-primary"} 20',
        "# TYPE db_pool_max gauge",
        'db_pool_max{pool="orders-primary"} 20',
    ]
    return "\n".join(said)


@server.tool
def handbook(chapter: str) -> str:
    """A chapter of the operators' handbook."""
    draw = random.Random(5)
    words = "service request queue deploy owner team region build cache index shard replica alert page window release"

    def filler() -> str:
        return " ".join(draw.choice(words.split()) for _ in range(70)).capitalize() + "."

    sections = [
        f"## {name} {number}\n\n{filler()}\n\n{filler()}\n"
        for number in range(1, 31)
        for name in ("Rotating", "Scaling")
    ]
    sections[41] = (
        "## Exhausted connection pools\n\nWhen a pool has no connection left, callers wait and then fail with "
        "POOL_TIMEOUT. "
        "Raise `orders.pool.max` to 60 (the database allows 200) and restart the writers one by one.\n"
    )
    return f"# Operators' handbook: {chapter}\n\n" + "\n".join(sections)


@server.tool
def config(app: str) -> str:
    """The configuration an app runs with."""
    return f"app: {app}\norders:\n  pool:\n    max: 20\n    timeout_ms: 3000\n  url: postgres://orders:Kq8-vT2mzw41@db-1.internal:5432/orders\n"


if __name__ == "__main__":
    server.run("stdio", show_banner=False)
