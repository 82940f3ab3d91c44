"""What a tool's process can access in its sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from midturn.security import confine as confinement, tool_sandbox
from midturn.security.confine import Means, SandboxBackend, confine, sandbox_backend
from midturn.security.private_files import protect
from midturn.security.profile import Declared, WorkspacePaths, profile
from midturn.security.tool_sandbox import ToolSandbox, UserPaths
from midturn.testing import run_tool
from midturn.tools.command import CommandSpec, CommandTool
from midturn.tools.process import ProcessEnd, ProcessSpec, run_process

FOUND = sandbox_backend()
REFUSED = re.compile("Permission denied|No such file")
"""Landlock denies access to existing files. In a mount namespace, they do not exist."""


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param(
            "landlock",
            marks=pytest.mark.skipif(FOUND.means != "landlock", reason="there is no Landlock here"),
        ),
        pytest.param("bubblewrap", marks=pytest.mark.real("bubblewrap")),
    ],
)
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Means:
    """Run with Landlock and with bubblewrap. Both must keep the same guarantees.

    Bubblewrap is tested as if the system had no Landlock.
    """
    wanted: Means = request.param
    if wanted == "bubblewrap":
        program = shutil.which("bwrap")
        assert program, "tools/install_parts installs it"
        monkeypatch.setattr(confinement, "bubblewrap", lambda: program)
        for module in (tool_sandbox, confinement):
            monkeypatch.setattr(module, "sandbox_backend", lambda: SandboxBackend("bubblewrap"))
    return wanted


class Place:
    """A home directory with private files, a workspace, and files around them."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.root = self.home / "work"
        self.state = self.home / ".local" / "state" / "midturn"
        self.config = self.home / ".config" / "midturn"
        self.ssh = self.home / ".ssh"
        self.elsewhere = directory / "elsewhere"
        self.elsewhere.mkdir()
        for folder in (self.root, self.state, self.config, self.ssh, self.home / ".cargo" / "bin"):
            folder.mkdir(parents=True)
            (folder / "file").write_text("content\n")

    def box(
        self,
        declared: Declared | None = None,
        *,
        network: bool = False,
        key: str = "",
        command: Sequence[str] = (),
    ) -> ToolSandbox:
        """Return the sandbox of a tool."""
        own = UserPaths(
            home=self.home,
            private=(self.state, self.config),
            cache=self.home / ".cache" / "midturn" / "tools",
        )
        return ToolSandbox(declared or Declared(), own, key=key, command=command, network=network)

    def run(self, script: str, box: ToolSandbox | None = None, **environment: str) -> ProcessEnd:
        """Run a shell script in the sandbox."""
        path = os.environ["PATH"]

        async def scene() -> ProcessEnd:
            with (box or self.box()).around(
                ("/bin/sh", "-c", script), self.root, str(self.root), path
            ) as started:
                given = {"PATH": path, "HOME": str(self.home), **environment, **started.environment}
                argv, enter = started.confined.argv, started.confined.enter
                return await run_process(
                    ProcessSpec(
                        argv=argv, cwd=str(self.root), environment=given, timeout=20, enter=enter
                    )
                )

        return asyncio.run(scene())

    def can(self, script: str, box: ToolSandbox | None = None, **environment: str) -> bool:
        """Return whether a script succeeds in the sandbox."""
        return self.run(script, box, **environment).status == 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server() -> Iterator[int]:
    """Yield a port on this machine on which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_tool_can_write_its_workspace_and_private_temporary_files(place: Place) -> None:
    finished = place.run(
        'echo x > made && cat file made && mkdir -p a/b && mv made a/b/ && echo t > "$TMPDIR/t" &&'
        ' echo "$TMPDIR"'
    )

    *shown, temporary = finished.stdout.decode().split()
    assert shown == ["content", "x"]
    assert (place.root / "a" / "b" / "made").exists()
    assert not Path(temporary).exists()


def test_a_tool_can_run_installed_programs(place: Place) -> None:
    assert place.can(
        f"git --version && env true && {sys.executable} -c 'import json, ssl, sqlite3' && head -c 1"
        " /dev/urandom > /dev/null"
    )
    assert place.can('cat "$HOME/.cargo/bin/file" && cat /etc/passwd /etc/hosts > /dev/null')


@pytest.mark.parametrize("name", ["state", "config", "ssh"])
def test_a_tool_cannot_read_keys_or_configuration(place: Place, name: str) -> None:
    folder = getattr(place, name)

    assert not place.can(f"cat {folder}/file")
    assert not place.can(f"ls {folder}")
    assert not place.can(f"echo x > {folder}/file")
    assert not place.can(f"ln {folder}/file stolen && cat stolen")
    assert not place.can(f"ln -s {folder}/file link; cat link")
    assert (folder / "file").read_text() == "content\n"


def test_a_tool_cannot_read_secrets_of_the_system(place: Place) -> None:
    assert not place.can("cat /etc/shadow")
    assert not place.can("cat /etc/gshadow")


def test_grants_extend_access_but_never_to_private_files(place: Place) -> None:
    """Not even a grant of the whole home directory includes keys and configuration."""
    reads = place.box(Declared(read=("~",)))
    writes = place.box(Declared(write=("~/.ssh", "../out")))
    (place.home / "out").mkdir()

    assert place.can(f"cat {place.ssh}/file", reads)
    assert not place.can(f"echo x > {place.ssh}/file", reads)
    assert not place.can(f"cat {place.state}/file || cat {place.config}/file", reads)
    assert place.can(f"echo x > {place.ssh}/new && echo x > ../out/new", writes)


def test_a_workspace_in_the_home_directory_does_not_expose_it(place: Place) -> None:
    place.root = place.home

    assert place.can("cat .ssh/file && echo x > work/new")
    assert not place.can("cat .local/state/midturn/file || cat .config/midturn/file")
    place.run("rm -rf .config/midturn/file")
    assert (place.config / "file").exists()


def test_the_network_is_available_only_if_granted(place: Place, server: int) -> None:
    script = (
        f"{sys.executable} -c \"import socket; socket.create_connection(('127.0.0.1', {server}))\""
    )

    assert not place.can(script)
    assert place.can(script, place.box(Declared(network=True)))
    assert place.can(script, place.box(network=True))
    assert not place.can(script, place.box(Declared(network=False), network=True))


def test_child_processes_stay_in_the_sandbox(place: Place) -> None:
    escape = f"cat {place.ssh}/file"

    for way in (
        f"setsid -w sh -c '{escape}'",
        f"env -i sh -c '{escape}'",
        f"exec sh -c '{escape}'",
        f"(sh -c '{escape}') & wait $!",
    ):
        assert not place.can(way), way


def test_a_tool_cannot_kill_processes_outside(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert not place.can(f"kill {other.pid}")
        assert other.poll() is None
        other.kill()


def test_a_circular_link_on_the_path_is_handled(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    where = WorkspacePaths(
        root=tmp_path, home=tmp_path / "home", private=(), path=f"{tmp_path}/loop:/usr/bin"
    )

    assert str(tmp_path / "loop") not in profile(Declared(), where, network=False).read


def test_another_program_can_start_a_process_in_the_sandbox(place: Place) -> None:
    """An MCP client starts its servers itself."""
    where = WorkspacePaths(
        root=place.root,
        home=place.home,
        private=(place.state, place.config),
        path=os.environ["PATH"],
    )
    argv = confine(
        ("sh", "-c", f"cat file; cat {place.ssh}/file; cat {place.state}/file"),
        profile(Declared(), where, network=True),
    )

    finished = subprocess.run(argv, capture_output=True, text=True, cwd=place.root, check=False)

    assert finished.stdout == "content\n"
    assert len(REFUSED.findall(finished.stderr)) == 2


def test_npx_runs_a_package_of_the_workspace(place: Place) -> None:
    """It needs a writable cache. The test is skipped where node is not installed."""
    if not place.can("command -v npx"):
        pytest.skip("node is not installed")
    binary = place.root / "node_modules" / ".bin" / "server"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/usr/bin/env node\nconsole.log('served')\n")
    binary.chmod(0o755)
    (place.root / "package.json").write_text(json.dumps({"name": "x"}))

    assert place.run("npx --offline server").stdout == b"served\n"


@pytest.mark.parametrize("marked", ["package.json", "pyvenv.cfg"])
def test_a_program_can_read_its_own_package(place: Place, marked: str) -> None:
    """Files next to the package cannot be read."""
    package = place.elsewhere / "server"
    script = package / "dist" / "start.sh"
    script.parent.mkdir(parents=True)
    script.write_text(f"cat {package}/data && ! cat {place.elsewhere}/other")
    (package / marked).touch()
    for file in (package / "data", place.elsewhere / "other"):
        file.write_text("content\n")
    command = ("/bin/sh", str(script))

    assert place.run(f"sh {script}", place.box(command=command)).stdout == b"content\n"
    assert not place.can(f"sh {script}")


def test_a_script_can_read_its_node_modules(place: Place) -> None:
    modules = place.elsewhere / "node_modules"
    for name in ("server/index.js", "needed/index.js"):
        (modules / name).parent.mkdir(parents=True)
        (modules / name).write_text("content\n")
    linked = place.elsewhere / "server"
    linked.symlink_to(modules / "server" / "index.js")

    assert place.can(
        f"cat {linked} {modules}/needed/index.js", place.box(command=("node", str(linked)))
    )


def test_no_program_exposes_a_home_directory_or_private_files(place: Place) -> None:
    (place.home / "package.json").touch()
    (place.state / "package.json").touch()
    (place.home / "start.sh").touch()
    (place.state / "start.sh").touch()

    assert not place.can(
        f"cat {place.ssh}/file", place.box(command=(str(place.home / "start.sh"),))
    )
    assert not place.can(
        f"cat {place.state}/file", place.box(command=(str(place.state / "start.sh"),))
    )


SAID = (
    "cat: {path}: Permission denied",
    "Error: EACCES: permission denied, open '{path}'",
    "PermissionError: [Errno 13] Permission denied: '{path}'",
)


@pytest.mark.parametrize("said", SAID)
def test_an_error_names_the_denied_files_and_how_to_allow_them(place: Place, said: str) -> None:
    out = place.elsewhere / "data"
    out.write_text("content\n")

    def advice(path: Path) -> str:
        return place.box(key="providers.mcp.notes").advice(
            "/bin/sh", said.format(path=path), place.root, os.environ["PATH"]
        )

    expected = (
        f"The sandbox denied access to {out}. To allow it, set `providers.mcp.notes.sandbox.read ="
        f' ["{out}"]`.'
    )
    assert advice(out) == expected
    assert advice(place.state / "file").endswith("tools cannot access midturn's own files.")
    assert advice(place.root / "file") == ""
    assert advice(place.elsewhere / "missing") == ""


def test_a_tool_denied_by_the_sandbox_tells_the_model(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.root)
    out = place.elsewhere / "data"
    out.write_text("content\n")
    box = place.box(key="conversation.tools.show")
    tool = CommandTool(CommandSpec(name="show", command=("cat", str(out))), box=box)

    report = asyncio.run(run_tool(tool))

    assert report.is_error
    assert report.content.endswith(f'`conversation.tools.show.sandbox.read = ["{out}"]`.')


def test_a_disabled_sandbox_is_not_applied(place: Place) -> None:
    assert place.can(f"cat {place.ssh}/file", place.box(Declared(enable=False)))


def test_a_persistent_server_is_sandboxed_by_its_starter(place: Place) -> None:
    argv, variables = place.box(network=True).launched(
        ("/bin/sh", "-c", f"cat {place.ssh}/file; echo x > $TMPDIR/t && cat file"),
        place.root,
        os.environ["PATH"],
    )

    finished = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd=place.root,
        check=False,
        env={**os.environ, **variables},
    )

    assert finished.stdout == "content\n"
    assert REFUSED.search(finished.stderr)


def test_the_workspace_configuration_is_hidden_if_possible(place: Place, means: Means) -> None:
    """Landlock cannot deny access below an allowed directory.

    With Landlock, configuration that a tool writes counts as not approved.
    """
    (place.root / ".midturn").mkdir(parents=True)
    (place.root / ".midturn" / "config.toml").write_text("")

    assert place.can("cat .midturn/config.toml") == (means == "landlock")


LOG = "1700000000000000-ship-it/events.jsonl"
ATTEMPTS = {
    "read": "cat {log}",
    "list": "ls {store}",
    "write": "echo forged >> {log}",
    "truncate": ": > {log}",
    "answer": "mkdir {folder}/answers && echo forged > {folder}/answers/forged.json",
    "begin": "mkdir {store}/1700000000000001-forged",
    "choose": "echo 1 > {store}/current",
    "delete": "rm -f {log}; false",  # the test checks whether the file still exists
    "delete all": "rm -rf {store}; false",
    "rename": "mv {folder} {store}/1700000000000009-gone",
    "take away": "mv {folder} ./taken",
    "hard link": "ln {log} stolen && cat stolen",
    "symbolic link": "ln -s {log} link && cat link",
    "link of the folder": "ln -s {store} there && echo forged > there/forged",
    "by the way up": "cat {up}{log}",
    "through a process": 'cat "/proc/$PPID/root{log}"',
    "through its own": 'cat "/proc/self/root{log}"',
    "through its directory": 'cat "/proc/self/cwd/{up}{log}"',
    "a lock": "flock -n {folder}/lock true",
    "a socket": (
        "{python} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{store}/forged.sock\")'"
    ),
    "a copy": "cp -r {store} ./copied && test -e ./copied/{name}",
    "a mount": "mount --bind {store} . && cat {name}",
    "an archive": "tar cf out.tar {folder} && tar tf out.tar | grep -q events",
}


@pytest.mark.timeout(600)  # a namespace with all grants takes thousands of mounts
@pytest.mark.parametrize("where", ["in the data directory", "named by its user"])
@pytest.mark.parametrize(
    "granted",
    [Declared(), Declared(read=("~",), write=("~", "/"))],
    ids=["as it is", "with everything granted"],
)
def test_no_attack_on_the_log_succeeds(place: Place, where: str, granted: Declared) -> None:
    """With any additional grants, a tool cannot read, write or delete the recorded events."""
    data = place.home / ".local" / "share" / "midturn"
    store = (
        data / "workspaces" / "work-0123456789abcdef"
        if where == "in the data directory"
        else place.home / "elsewhere"
    )
    log = store / LOG
    log.parent.mkdir(parents=True)
    log.write_text("recorded\n")
    private = (place.state, place.config, data)
    protect(store)
    own = UserPaths(
        home=place.home, private=private, cache=place.home / ".cache" / "midturn" / "tools"
    )
    box = ToolSandbox(granted, own)
    names = {
        "log": log,
        "store": store,
        "folder": log.parent,
        "name": LOG,
        "up": "../" * len(place.root.parts),
        "python": sys.executable,
    }
    before = _everything(store)

    worked = [
        name
        for name, script in ATTEMPTS.items()
        if place.can(script.format(**names), box) or _everything(store) != before
    ]

    assert worked == []


def _everything(store: Path) -> list[tuple[str, int, bytes]]:
    return [
        (str(path), path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(store.rglob("*"))
    ]


def test_nothing_is_created_in_a_workspace_without_a_store(place: Place) -> None:
    assert place.can("true")
    assert not (place.root / ".midturn").exists()
