"""One client, one chatty server, before and after: the figures of docs/how-to/gateway-walkthrough.md.

    python -m bench.gateway_walkthrough [--smoke]

Six calls that an agent makes to find the cause of an incident, each with the text that answers it: made directly,
through `tersely gateway`, and through the gateway without `looking_for`. No model is involved; the figures are the
tokens a model would have to read.
"""

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from bench.arguments import parser
from conformance.processes import ROOT, TERSELY, own_environment
from tersely.text.tokens import O200K

CHATTY = [sys.executable, "-m", "bench.gateway_chatty"]
WAYS = ("direct", "gateway", "silent")
SECRET = "Kq8-vT2mzw41"


@dataclass(frozen=True)
class Step:
    tool: str
    arguments: dict[str, Any]
    question: str
    answers: tuple[str, ...]


STEPS = (
    Step(
        "list_pods",
        {"namespace": "shop"},
        "which pods are not healthy, and why?",
        ("checkout-7d9f6c5b-x2x9k", "checkout-7d9f6c5b-q8rzt", "CrashLoopBackOff"),
    ),
    Step(
        "pod_logs", {"app": "checkout"}, "why does checkout fail?", ("pool orders-primary exhausted (20 of 20 in use)",)
    ),
    Step(
        "query",
        {"sql": "select * from orders"},
        "which orders failed, with what code?",
        ("88121,c-4417,1249.00,failed,POOL_TIMEOUT",),
    ),
    Step(
        "metrics",
        {"job": "checkout"},
        "how many connections of orders-primary are in use?",
        ('db_pool_in_use{pool="orders-primary"} 20',),
    ),
    Step(
        "handbook",
        {"chapter": "databases"},
        "what to do when a connection pool is exhausted?",
        ("Raise `orders.pool.max` to 60",),
    ),
    Step("config", {"app": "checkout"}, "how large is the pool?", ("max: 20",)),
)


def text_of(result: Any) -> str:
    return "\n".join(part.text for part in result.content if part.type == "text")


async def offered(client: Client[Any]) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in await client.list_tools()]


async def run() -> bool:
    good = True
    with tempfile.TemporaryDirectory() as folder:
        environment = own_environment(folder)

        def client(command: list[str]) -> Client[Any]:
            log = Path(folder) / "stderr.txt"
            return Client(
                StdioTransport(command[0], command[1:], env=environment, cwd=str(ROOT), log_file=log, keep_alive=False)
            )

        direct, gateway = client(CHATTY), client([*TERSELY, "gateway", "--name", "platform", "--", *CHATTY])
        async with direct, gateway:
            offers = [O200K.count(json.dumps(await offered(client))) for client in (direct, gateway)]
            print(f"\n{'tokens a model reads':<22}{'direct':>10}{'gateway':>10}{'silent':>10}   answer included?")
            print(f"{'the list of tools':<22}{offers[0]:>10,}{offers[1]:>10,}{offers[1]:>10,}")
            totals = [offers[0], offers[1], offers[1]]
            handle = ""
            for step in STEPS:
                whole = text_of(await direct.call_tool_mcp(step.tool, step.arguments))
                asked = text_of(
                    await gateway.call_tool_mcp(step.tool, {**step.arguments, "looking_for": step.question})
                )
                silent = text_of(await gateway.call_tool_mcp(step.tool, step.arguments))
                counts = [O200K.count(text) for text in (whole, asked, silent)]
                totals = [total + count for total, count in zip(totals, counts, strict=True)]
                found = [all(answer in text for answer in step.answers) for text in (whole, asked, silent)]
                good &= found[0] and found[1] and SECRET not in asked + silent
                said = ", ".join(f"{way}: {'yes' if there else 'NO'}" for way, there in zip(WAYS, found, strict=True))
                print(f"{step.tool:<22}" + "".join(f"{count:>10,}" for count in counts) + f"   {said}")
                if step.tool == "pod_logs":
                    handle = re.search(r"r_[A-Za-z0-9]{16}", asked)[0]  # type: ignore[index]
                    shown = asked
            print(
                f"{'together':<22}"
                + "".join(f"{total:>10,}" for total in totals)
                + f"   {totals[0] / totals[1]:.0f} × less"
            )
            page = text_of(await gateway.call_tool_mcp("read_result", {"handle": handle, "pattern": "5f0c1a9e77aa"}))
            good &= "order 88121 not stored" in page
            print(f"\nThe logs of checkout, as the client got them:\n\n{shown}\n")
            print(f"read_result {handle} for the trace of that line, {O200K.count(page)} tokens:\n\n{page}\n")
            masked = text_of(await gateway.call_tool_mcp("config", {"app": "checkout"}))
            print(f"The configuration, where the password was:\n\n{masked}")
        stats = await anyio.run_process([*TERSELY, "stats"], env=environment, cwd=ROOT)
        print(f"tersely stats:\n\n{stats.stdout.decode()}")
    return good


if __name__ == "__main__":
    parser(__doc__).parse_args()  # Takes seconds anyway: --smoke changes nothing.
    sys.exit(0 if anyio.run(run) else 1)
