"""A PostgreSQL server of a test: Debian's binaries, a temporary folder, a socket, no network, never as root."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

_PROGRAMS = ("initdb", "pg_ctl")
_FOLDERS = pathlib.Path("/usr/lib/postgresql")  # where Debian puts what is not for users
_SECONDS = 60


def programs() -> pathlib.Path | None:
    """The folder with the newest server's programs; None without any."""
    versions = sorted(_FOLDERS.glob("[0-9]*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    on_path = shutil.which("pg_ctl")
    folders = [*versions, *([pathlib.Path(os.path.realpath(on_path)).parent] if on_path else [])]
    return next((folder for folder in folders if all((folder / name).is_file() for name in _PROGRAMS)), None)


@contextlib.contextmanager
def server() -> Iterator[dict[str, Any]]:
    """Start a server; yields the arguments of a connection, and stops the server at the end."""
    folder = programs()
    if folder is None:
        raise FileNotFoundError("a PostgreSQL server must be installed.")
    with tempfile.TemporaryDirectory(prefix="treeanova-pg-") as home:  # short: the path of a socket has a limit
        user = _user()
        os.chown(home, user.pw_uid, user.pw_gid)
        data = f"{home}/data"
        _run(user, home, folder / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-c listen_addresses= -k {home} -F"
        _run(user, home, folder / "pg_ctl", "-D", data, "-l", f"{home}/log", "-w", "-o", options, "start")
        try:
            yield {"host": home, "user": "tester", "dbname": "postgres"}
        finally:
            _run(user, home, folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _user() -> pwd.struct_passwd:
    """The user that runs the server: this one, or one without rights if this is root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid())
    names = {entry.pw_name for entry in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _run(user: pwd.struct_passwd, home: str, program: pathlib.Path, *arguments: str) -> None:
    other: dict[str, Any] = {} if os.getuid() else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": home, "LC_ALL": "C"}
    # Output goes to a file: a server that stays would keep a pipe open.
    with pathlib.Path(home, "output").open("w+", encoding="utf-8") as output:
        run = subprocess.run(
            [str(program), *arguments],
            cwd=home, env=environment, stdout=output, stderr=output, timeout=_SECONDS, check=False, **other,
        )  # fmt: skip
        output.seek(0)
        if run.returncode:
            raise OSError(f"{program.name} must succeed, got {output.read()[-500:]}")
