"""The program `tersely`: chooses the way in by its first argument.

`run` and `hook` handle one result per process, thousands of times a day, so they start
without the command line's libraries; `tersely.cli` lists them and everything else.
"""

import sys


def launch() -> None:
    words = sys.argv[1:]
    if sys.platform == "win32" and (words[:1] == ["run"] or words[:2] == ["hook", "helper"]):
        sys.exit("tersely: This command needs a Unix system. On Windows: COMMAND 2>&1 | tersely condense --keep")
    if words[:1] == ["run"]:
        from tersely.coding.run import run
        from tersely.settings.variables import process_environment

        sys.exit(run(words[1:], process_environment()))
    if words[:1] == ["hook"] and len(words) > 1:
        from tersely.settings.variables import process_environment

        if words[1:] == ["helper"]:
            from tersely.coding.helper import serve_hooks

            sys.exit(serve_hooks(process_environment()))
        if "--warm" in words[2:] and "--help" not in words and sys.platform != "win32":
            from tersely.coding.warm import answer_warm

            sys.exit(answer_warm(words[1:], process_environment()))
        from tersely.coding.dialects import DIALECTS

        if words[1] in DIALECTS:
            from tersely.coding.hook import hook

            sys.exit(hook(words[1:], process_environment()))
    from tersely.cli import main as command_line

    command_line()
