"""`tersely`, from a process that has imported it already: `python -m tests.docs.forked FOLDER`.

The docs have more than a hundred commands, and most of the time of each is the import of libraries. This process
imports them once and forks for each command, with the folder, the environment and the standard files of whoever called
it. FOLDER/tersely is the program to call. Commands that run until they are stopped are started as usual.
"""

import contextlib
import os
import pickle
import socket
import sys
from pathlib import Path

CLIENT = """#!{python} -IS
import os, pickle, socket, sys
words = sys.argv[1:]
is_itself = words[:1] in (["up"], ["serve"], ["work"], ["run"], ["hook"])
is_gateway = words[:1] == ["gateway"] and words[1:2] not in (["install"], ["check"])
if is_itself or is_gateway or "--watch" in words or "_TERSELY_COMPLETE" in os.environ:
    os.execv({program!r}, ["tersely", *words])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [pickle.dumps((words, os.getcwd(), dict(os.environ)))], [0, 1, 2])
    answer = server.recv(1)
sys.exit(answer[0] if answer else 137)
"""


def serve(folder: Path) -> None:
    address, program = str(folder / "socket"), str(Path(sys.executable).with_name("tersely"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(50)
        _import_everything()
        client = folder / "client"
        client.write_text(CLIENT.format(python=sys.executable, program=program, address=address), "utf-8")
        client.chmod(0o755)
        client.rename(folder / "tersely")  # Whoever waits for it may call it at once.
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _import_everything() -> None:
    import tersely.app.sessions
    import tersely.cli.ask
    import tersely.cli.gateway_check
    import tersely.cli.research  # noqa: F401


def _answer(connection: socket.socket) -> None:
    """Run the command in a further process, which ends as any program does, and pass its exit code on."""
    message, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    words, folder, environment = pickle.loads(message)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        connection.close()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["tersely", *words]
        sys.modules["__main__"].__spec__ = None  # Else the command line believes that it was started as a module.
        from tersely.launch import launch

        launch()
        sys.exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.send(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
