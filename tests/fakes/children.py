"""The child processes of a process."""

from pathlib import Path


def children_of(process_id: int) -> list[int]:
    return [
        int(one)
        for task in Path(f"/proc/{process_id}/task").iterdir()
        for one in (task / "children").read_text("ascii").split()
    ]
