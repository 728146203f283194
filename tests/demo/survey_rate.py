"""How often an investigation without a model names the cause: `python -m tests.demo.survey_rate [seeds per cause]
[cause …]`.

The simulated systems answer behind real MCP servers; the survey works as it does in
a session, with a store of its own and nobody watching. Prints the rate per cause and
the conclusions that were wrong; and the rate of the demo's two agents, of which one
sees everything and one only the cluster, after their verdicts were ranked.
"""

import json
import random
import sys
import tempfile
import warnings
from pathlib import Path

import anyio

from tersely.agent.assignment import Assignment, Report
from tersely.agent.loop import investigate
from tersely.agent.options import AgentOptions
from tersely.agent.synthesis import AgentResult, ranked
from tersely.agent.tool_executor import run_now
from tersely.demo.causes import CAUSES
from tersely.demo.incidents import Incident, draw_incident, server_commands, this_minute
from tersely.demo.judge import blamed_decoy, conclusion_of, names_cause
from tersely.llm.providers import NativeTools
from tersely.masking.mask import Masker
from tersely.mcp.registry import registered
from tersely.mcp.servers import Server, ServerOptions
from tersely.results.kept import KeptResults
from tersely.store.database import Database
from tests.fakes.executing import read_back, tool_executor
from tests.fakes.recorder import MemoryRecorder

KEY = b"k" * 32


async def surveyed(incident: Incident) -> list[Report]:
    """The reports on an incident, made without a model: by an agent with all servers, and by one with the first."""
    commands = server_commands(incident.seed, incident.world.now)
    servers = [
        Server(
            name=name,
            options=ServerOptions.model_validate(
                {"transport": {"command": command[0], "args": [*command[1:], "--cause", incident.cause.name]}}
            ),
        )
        for name, command in commands.items()
    ]
    masker = Masker(key=KEY)
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Database.open(f"sqlite:///{Path(folder) / 'tersely.db'}") as database,
            registered(servers, wait=60) as registry,
        ):
            executor = tool_executor(registry, KeptResults(database))
            return [
                await investigate(
                    Assignment(
                        session_id="s1",
                        stage_id="st1",
                        execution_id="e1",
                        stage="look",
                        task="",
                        agent_name="agent",
                        agent=AgentOptions(),
                        alert=masker.mask(json.dumps(incident.alert, indent=2)),
                        alert_type="",
                        runbook=masker.mask(""),
                        servers=servers_of_agent,
                        native_tools=NativeTools(),
                        max_iterations=8,
                        key=KEY,
                    ),
                    llm=None,
                    summarizer=None,
                    executor=executor,
                    read_back=read_back(executor.results),
                    recorder=MemoryRecorder(),
                    step=run_now,
                )
                for servers_of_agent in (tuple(commands), tuple(commands)[:1])
            ]


def verdict_of_two(reports: list[Report]) -> str:
    """Service and summary of the verdict on the results of both, without the sentences on who agrees with whom."""
    names = ("all-systems", "cluster-only")
    results = [AgentResult(agent=name, report=report) for name, report in zip(names, reports, strict=True)]
    _, verdict = ranked(results)
    assert verdict is not None
    return "\n".join([f"{verdict.service}: {verdict.cause}", *verdict.summary.splitlines()[:-1]])


LEAST_RIGHT = 0.95


async def main(seeds: int, wanted: list[str]) -> None:
    right = total = in_headline = in_verdict = by_two = 0
    for act in CAUSES:
        name = act.__name__.replace("_", "-")
        if wanted and name not in wanted:
            continue
        found = 0
        for seed in random.SystemRandom().sample(range(10**6), seeds):
            incident = draw_incident(seed, this_minute(), cause=name)
            reports = await surveyed(incident)
            by_two += incident.cause.is_named_in(verdict_of_two(reports))
            report = reports[0]
            analysis = report.analysis
            assert report.verdict is not None
            in_verdict += incident.cause.is_named_in(f"{report.verdict.service}: {report.verdict.summary}")
            in_headline += incident.cause.is_named_in((conclusion_of(analysis).splitlines() or [""])[0])
            if names_cause(analysis, incident):
                found += 1
                continue
            blamed = blamed_decoy(analysis, incident)
            print(
                f"--- {name}, seed {seed}: {incident.cause.what}. Blamed: {blamed.what if blamed else 'no look-alike'}."
            )
            print(conclusion_of(analysis), flush=True)
        print(f"{name:<28} {found}/{seeds}", flush=True)
        right, total = right + found, total + seeds
    print(
        f"\nthe cause was named in {right} of {total} investigations without a model, in {in_headline} of them by the "
        f"headline itself, in {in_verdict} by the summary of the verdict\n"
        f"two agents, as in the demo: in {by_two} of {total} by the summary of the verdict on both"
    )
    if min(in_verdict, by_two) < LEAST_RIGHT * total:
        sys.exit(f"Fewer than {LEAST_RIGHT:.0%} of the verdicts are right.")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 2, sys.argv[2:])
