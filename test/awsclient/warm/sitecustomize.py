"""Keeps the aws command line in memory, so that a command costs a fork and not the start of Python.

Python imports this module before it runs the program "aws": it is in the first directory of PYTHONPATH. The module
imports what aws imports, listens on a socket, and forks for each command. The child takes over the arguments, the
environment, the working directory and the open files of the command, leaves this module, and goes on as Python does:
it runs the program "aws" as it is. The parent ends with the process that holds the other end of its standard input.

A command is refused where a new process would differ from a fork in more than what the child takes over: when its
environment differs in a variable that may be read before a command runs, or when it has another user, other
capabilities or other namespaces. The client then runs aws itself.
"""

import os
import sys

# The client is installed as "aws". It prints nothing itself and takes no input.
CLIENT = '''#!%(python)s -IS
# Written by test/awsclient, for one test. It has a server run the aws command line, or runs it itself.
import os, socket, sys

REAL, SOCKET = %(real)r, %(socket)r


def environment():
    """Returns the variables that the process was started with. Python may have added some."""
    with open("/proc/self/environ", "rb") as block:
        return dict(entry.split(b"=", 1) for entry in block.read().split(b"\\0") if b"=" in entry)


def credentials():
    with open("/proc/self/status") as status:
        lines = [l for l in status if l.startswith(("Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp:"))]
    root = os.stat("/")
    namespaces = [os.readlink("/proc/self/ns/" + name) for name in ("mnt", "net", "pid", "user", "uts")]
    return [*lines, root.st_dev, root.st_ino, *namespaces]


def connect():
    """Returns a connection over which the command was sent, or None."""
    if any(file is None or file.isatty() for file in (sys.stdin, sys.stdout, sys.stderr)):
        return None
    umask = os.umask(0)
    os.umask(umask)
    command = ascii({"credentials": credentials(), "umask": umask, "environment": environment(),
        "arguments": [os.fsencode(a) for a in sys.argv[1:]]}).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(SOCKET)
    files = [0, 1, 2, os.open(".", os.O_RDONLY | os.O_DIRECTORY)]
    socket.send_fds(connection, [len(command).to_bytes(8, "big")], files)
    connection.sendall(command)
    return connection


def main():
    try:
        connection = connect()
    except OSError: # no server listens
        connection = None
    answer = connection.recv(8, socket.MSG_WAITALL) if connection else b"no"
    if answer == b"no":
        os.execve(REAL, [REAL, *sys.argv[1:]], environment())
    if len(answer) != 8:
        sys.exit("the server of the aws command line ended meanwhile")
    code = int.from_bytes(answer, "big", signed=True)
    if code < 0:
        import signal
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
'''

# Variables with these prefixes are read while a command runs, and not before.
READ_LATE = (b"AWS_", b"KUBE")
# Variables that shells set, and nothing here reads.
NEVER_READ = (b"_", b"PWD", b"OLDPWD", b"SHLVL")


def early(environment):
    """Returns the variables that may be read before a command runs."""
    return {name: value for name, value in environment.items()
        if name not in NEVER_READ and (name == b"AWS_DATA_PATH" or not name.startswith(READ_LATE))}


def preload():
    """Imports the modules that aws imports before it runs a command."""
    import gc
    import importlib

    import awscli.clidriver

    # Making a driver imports more. A child does it, so that no state of a driver remains here, but for the modules.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            awscli.clidriver.create_clidriver()
        finally:
            with open(writer, "w") as to:
                to.write("\n".join(sys.modules))
            os._exit(0)
    os.close(writer)
    with open(reader) as learned:
        names = learned.read().split("\n")
    os.waitpid(child, 0)
    for name in names:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception: # the child has made it in another way than by an import
                pass
    gc.collect()
    gc.freeze() # a collection in a child does not write to the memory that it shares


def parse(block):
    """Returns the variables of a block in the form of /proc/self/environ."""
    return dict(entry.split(b"=", 1) for entry in block.split(b"\0") if b"=" in entry)


def install(directory, real):
    """Writes the client and returns its functions."""
    text = CLIENT % {"python": sys.executable, "real": real, "socket": os.path.join(directory, "socket")}
    path = os.path.join(directory, "aws")
    with open(path + ".new", "w") as file:
        file.write(text)
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)
    functions = {"__name__": "client"}
    exec(text, functions)
    return functions


def take_over(command, files, changes):
    """Makes this process, a child, the one that runs the command."""
    import time

    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.fchdir(files[3])
    for file in files:
        os.close(file)
    os.umask(command["umask"])
    os.environb.clear()
    os.environb.update(command["environment"])
    for name, value in changes.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value
    time.tzset()
    sys.argv[1:] = [os.fsdecode(argument) for argument in command["arguments"]]


def serve(directory, real, began):
    """Serves commands until standard input ends, and ends the process then. It returns in children alone."""
    import ast
    import select
    import shutil
    import signal
    import socket

    # What a shim, such as that of pyenv, and the imports changed, they change for each command.
    changes = {name: os.environb.get(name) for name in {*began, *os.environb}
        if os.environb.get(name) != began.get(name) and name not in NEVER_READ}
    began = early(began)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.join(directory, "socket"))
    listener.listen(128)
    credentials = install(directory, real)["credentials"]()
    os.write(1, b"ready\n")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)

    running = {}  # by the pipe that a child has open while it runs: its process ID and the connection of its client
    while True:
        clients = {connection: pipe for pipe, (_, connection) in running.items()}
        ready, _, _ = select.select([0, listener, *running, *clients], [], [])
        if 0 in ready:
            for child, _ in running.values():
                os.kill(child, signal.SIGKILL)
            shutil.rmtree(directory, ignore_errors=True)  # the test may have ended without its cleanup
            os._exit(0)
        for pipe in ready:
            if pipe in running:  # a child ended
                child, connection = running.pop(pipe)
                os.close(pipe)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                try:
                    connection.sendall(status.to_bytes(8, "big", signed=True))
                except OSError:
                    pass  # its client is gone, too
                connection.close()
            elif pipe in clients and clients[pipe] in running:  # the client of a child ended
                os.kill(running[clients[pipe]][0], signal.SIGKILL)
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        header, files, _, _ = socket.recv_fds(connection, 8, 4)
        text = connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
        command = ast.literal_eval(text.decode()) if len(text) == int.from_bytes(header, "big") > 0 else {}
        child = None
        if command.get("credentials") == credentials and early(command["environment"]) == began:
            pipe, held = os.pipe()
            child = os.fork()
            if child == 0:
                listener.close()
                connection.close()
                for pipe_of_other, (_, connection_of_other) in running.items():
                    os.close(pipe_of_other)
                    connection_of_other.close()
                os.close(pipe)  # "held" stays open until the process ends
                take_over(command, files, changes)
                return
            os.close(held)
            running[pipe] = child, connection
        for file in files:
            os.close(file)
        if child is None:
            try:
                connection.sendall(b"no")
            except OSError:
                pass
            connection.close()


def main():
    directory = os.environ.pop("CORACLE_WARM_AWS")
    if sys.argv[1:] != ["warm", directory]:
        sys.exit("a wrapper of aws adds arguments, which would be those of the server")
    # What follows this module in the path of modules is imported in its place.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.remove(here)
    rest = [entry for entry in os.environ.pop("PYTHONPATH").split(os.pathsep) if entry != here]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    with open(os.path.join(directory, "environment"), "rb") as file:
        began = parse(file.read())
    with open(os.path.join(directory, "real")) as file:
        real = file.read()
    preload()
    serve(directory, real, began)
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # that of the system
    except ImportError:
        sys.modules[__name__] = this


main()
