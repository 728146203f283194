"""What happened in a run, as JSON lines: one record per submission, claim, step, call, event, fault and end.

Kinds and their fields (`at` is seconds since 1970 everywhere; all processes of a run share a machine, hence a clock):

    run      seed, store, limit, lease, what, clocks_differ (the replicas' own clocks do)
    submit   session, case, accepted (true: answered 202)
    fault    what (kill, stop, term, …), executor (of a killed or stopped process, as far as it is known)
    wrote    number, who, place, session (place "sessions": attempt, executor)   every row, by the name of its writer;
    see audit.py
    ready    slot                                         a replica listens
    claim    session, attempt, executor
    takeover executor, sessions                           what a survivor queued again
    suspected  session                                    it has to run in a child process
    convicted  session, executor                          it crashed the child process with that worker
    step     session, name, began, stored                 as the workflow engine has it in the end
    call     what (model, summary, tool), case, number    as the model and the tool saw it
    effect   case, number                                 of a tool without hints, as it had it
    event    session, seq, payload                        as the API has it in the end
    live     session, seq, payload                        as a viewer got it
    end      session, status, reason, attempt, began, ended
    left     session, where                               what is unfinished after everything: queue, streaming event,
        open part
    leak     where                                        a secret was found there
"""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class History:
    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.records: list[Record] = []

    def note(self, kind: str, **fields: Any) -> None:
        record = {"kind": kind, "at": time.time(), **fields}
        self.records.append(record)
        if self.file:
            with self.file.open("a") as out:
                out.write(json.dumps(record) + "\n")

    def of(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record["kind"] in kinds]

    @classmethod
    def read(cls, file: Path) -> "History":
        history = cls()
        history.records = [json.loads(line) for line in file.read_text().splitlines()]
        return history


def lines_of(file: Path) -> Iterable[Record]:
    """JSON lines of a log whose writer may have been killed in the middle of one."""
    if not file.exists():
        return
    for line in file.read_text("utf-8", "replace").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
