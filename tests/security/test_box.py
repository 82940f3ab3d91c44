"""What a tool's process reaches in its sandbox, and what it does not."""

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
from midturn.security.confine import Means, Offer, confine, offer
from midturn.security.private_files import keep
from midturn.security.profile import Declared, Workplace, profile
from midturn.security.tool_sandbox import Box, Own
from midturn.testing import run_tool
from midturn.tools.command import CommandSpec, CommandTool
from midturn.tools.process import ProcessEnd, Program, run_process

FOUND = offer()
REFUSED = re.compile("Permission denied|No such file")
"""Landlock refuses what is there; in a namespace of its own it is not there."""


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param("landlock", marks=pytest.mark.skipif(FOUND.means != "landlock", reason="there is no Landlock here")),
        pytest.param("bubblewrap", marks=pytest.mark.real("bubblewrap")),
    ],
)
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Means:
    """Both means keep the same promises; where there is Landlock, bubblewrap is tried as if there was none."""
    wanted: Means = request.param
    if wanted == "bubblewrap":
        program = shutil.which("bwrap")
        assert program, "tools/install_parts installs it"
        monkeypatch.setattr(confinement, "bubblewrap", lambda: program)
        for module in (tool_sandbox, confinement):
            monkeypatch.setattr(module, "offer", lambda: Offer("bubblewrap"))
    return wanted


class Place:
    """A home with what is private, a workspace, and whatever else is around."""

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

    def box(self, declared: Declared | None = None, *, network: bool = False, key: str = "", command: Sequence[str] = ()) -> Box:
        """Return the sandbox of a tool."""
        own = Own(home=self.home, private=(self.state, self.config), cache=self.home / ".cache" / "midturn" / "tools")
        return Box(declared or Declared(), own, key=key, command=command, network=network)

    def run(self, script: str, box: Box | None = None, **environment: str) -> ProcessEnd:
        """Run a shell script in the sandbox."""
        path = os.environ["PATH"]

        async def scene() -> ProcessEnd:
            with (box or self.box()).around(("/bin/sh", "-c", script), self.root, str(self.root), path) as started:
                given = {"PATH": path, "HOME": str(self.home), **environment, **started.environment}
                argv, enter = started.confined.argv, started.confined.enter
                return await run_process(Program(argv=argv, cwd=str(self.root), environment=given, timeout=20, enter=enter))

        return asyncio.run(scene())

    def can(self, script: str, box: Box | None = None, **environment: str) -> bool:
        """Say whether a script succeeds in there."""
        return self.run(script, box, **environment).status == 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server() -> Iterator[int]:
    """A port on this machine where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_it_works_in_its_workspace_and_keeps_temporary_files_to_itself(place: Place) -> None:
    finished = place.run('echo x > made && cat file made && mkdir -p a/b && mv made a/b/ && echo t > "$TMPDIR/t" && echo "$TMPDIR"')

    *shown, temporary = finished.stdout.decode().split()
    assert shown == ["content", "x"]
    assert (place.root / "a" / "b" / "made").exists()
    assert not Path(temporary).exists()


def test_it_runs_what_is_installed(place: Place) -> None:
    assert place.can(f"git --version && env true && {sys.executable} -c 'import json, ssl, sqlite3' && head -c 1 /dev/urandom > /dev/null")
    assert place.can('cat "$HOME/.cargo/bin/file" && cat /etc/passwd /etc/hosts > /dev/null')


@pytest.mark.parametrize("name", ["state", "config", "ssh"])
def test_it_reaches_neither_keys_nor_configuration(place: Place, name: str) -> None:
    folder = getattr(place, name)

    assert not place.can(f"cat {folder}/file")
    assert not place.can(f"ls {folder}")
    assert not place.can(f"echo x > {folder}/file")
    assert not place.can(f"ln {folder}/file stolen && cat stolen")
    assert not place.can(f"ln -s {folder}/file link; cat link")
    assert (folder / "file").read_text() == "content\n"


def test_it_reads_no_secret_of_the_system(place: Place) -> None:
    assert not place.can("cat /etc/shadow")
    assert not place.can("cat /etc/gshadow")


def test_its_user_may_let_it_reach_more_but_never_what_is_private(place: Place) -> None:
    """Not even a grant of the whole home covers keys and configuration."""
    reads = place.box(Declared(read=("~",)))
    writes = place.box(Declared(write=("~/.ssh", "../out")))
    (place.home / "out").mkdir()

    assert place.can(f"cat {place.ssh}/file", reads)
    assert not place.can(f"echo x > {place.ssh}/file", reads)
    assert not place.can(f"cat {place.state}/file || cat {place.config}/file", reads)
    assert place.can(f"echo x > {place.ssh}/new && echo x > ../out/new", writes)


def test_a_workspace_that_is_the_home_directory_does_not_open_it(place: Place) -> None:
    place.root = place.home

    assert place.can("cat .ssh/file && echo x > work/new")
    assert not place.can("cat .local/state/midturn/file || cat .config/midturn/file")
    place.run("rm -rf .config/midturn/file")
    assert (place.config / "file").exists()


def test_it_has_the_network_only_where_that_is_said(place: Place, server: int) -> None:
    script = f"{sys.executable} -c \"import socket; socket.create_connection(('127.0.0.1', {server}))\""

    assert not place.can(script)
    assert place.can(script, place.box(Declared(network=True)))
    assert place.can(script, place.box(network=True))
    assert not place.can(script, place.box(Declared(network=False), network=True))


def test_it_stays_inside_whatever_it_becomes(place: Place) -> None:
    escape = f"cat {place.ssh}/file"

    for way in (f"setsid -w sh -c '{escape}'", f"env -i sh -c '{escape}'", f"exec sh -c '{escape}'", f"(sh -c '{escape}') & wait $!"):
        assert not place.can(way), way


def test_it_ends_nobody_outside(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert not place.can(f"kill {other.pid}")
        assert other.poll() is None
        other.kill()


def test_a_link_to_itself_on_the_path_leads_nowhere_and_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    where = Workplace(root=tmp_path, home=tmp_path / "home", private=(), path=f"{tmp_path}/loop:/usr/bin")

    assert str(tmp_path / "loop") not in profile(Declared(), where, network=False).read


def test_another_program_may_start_a_process_in_it(place: Place) -> None:
    """An MCP client starts its servers itself."""
    where = Workplace(root=place.root, home=place.home, private=(place.state, place.config), path=os.environ["PATH"])
    argv = confine(("sh", "-c", f"cat file; cat {place.ssh}/file; cat {place.state}/file"), profile(Declared(), where, network=True))

    finished = subprocess.run(argv, capture_output=True, text=True, cwd=place.root, check=False)

    assert finished.stdout == "content\n"
    assert len(REFUSED.findall(finished.stderr)) == 2


def test_a_package_of_the_workspace_runs_with_npx(place: Place) -> None:
    """It needs a cache that it may write; where node is not installed, there is nothing to look at."""
    if not place.can("command -v npx"):
        pytest.skip("node is not installed")
    binary = place.root / "node_modules" / ".bin" / "server"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/usr/bin/env node\nconsole.log('served')\n")
    binary.chmod(0o755)
    (place.root / "package.json").write_text(json.dumps({"name": "x"}))

    assert place.run("npx --offline server").stdout == b"served\n"


@pytest.mark.parametrize("marked", ["package.json", "pyvenv.cfg"])
def test_a_program_reads_the_package_that_it_lies_in_wherever_that_is(place: Place, marked: str) -> None:
    """Only that: not what lies beside the package."""
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


def test_what_a_script_needs_lies_in_the_same_node_modules(place: Place) -> None:
    modules = place.elsewhere / "node_modules"
    for name in ("server/index.js", "needed/index.js"):
        (modules / name).parent.mkdir(parents=True)
        (modules / name).write_text("content\n")
    linked = place.elsewhere / "server"
    linked.symlink_to(modules / "server" / "index.js")

    assert place.can(f"cat {linked} {modules}/needed/index.js", place.box(command=("node", str(linked))))


def test_no_program_opens_a_home_or_what_is_private(place: Place) -> None:
    (place.home / "package.json").touch()
    (place.state / "package.json").touch()
    (place.home / "start.sh").touch()
    (place.state / "start.sh").touch()

    assert not place.can(f"cat {place.ssh}/file", place.box(command=(str(place.home / "start.sh"),)))
    assert not place.can(f"cat {place.state}/file", place.box(command=(str(place.state / "start.sh"),)))


SAID = (
    "cat: {path}: Permission denied",
    "Error: EACCES: permission denied, open '{path}'",
    "PermissionError: [Errno 13] Permission denied: '{path}'",
)


@pytest.mark.parametrize("said", SAID)
def test_a_failure_names_what_was_kept_from_a_program_and_what_allows_it(place: Place, said: str) -> None:
    out = place.elsewhere / "data"
    out.write_text("content\n")

    def advice(path: Path) -> str:
        return place.box(key="providers.mcp.notes").advice("/bin/sh", said.format(path=path), place.root, os.environ["PATH"])

    expected = f'The sandbox keeps {out} from it. If it needs that, let it: `providers.mcp.notes.sandbox.read = ["{out}"]`.'
    assert advice(out) == expected
    assert advice(place.state / "file").endswith("midturn's own files are out of the reach of tools.")
    assert advice(place.root / "file") == ""
    assert advice(place.elsewhere / "missing") == ""


def test_a_tool_that_fails_at_the_sandbox_says_so_to_the_model(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.root)
    out = place.elsewhere / "data"
    out.write_text("content\n")
    box = place.box(key="conversation.tools.show")
    tool = CommandTool(CommandSpec(name="show", command=("cat", str(out))), box=box)

    report = asyncio.run(run_tool(tool))

    assert report.is_error
    assert report.content.endswith(f'`conversation.tools.show.sandbox.read = ["{out}"]`.')


def test_without_a_sandbox_by_its_users_will_there_is_none(place: Place) -> None:
    assert place.can(f"cat {place.ssh}/file", place.box(Declared(enable=False)))


def test_a_server_that_stays_is_started_confined_by_whoever_starts_it(place: Place) -> None:
    argv, variables = place.box(network=True).launched(
        ("/bin/sh", "-c", f"cat {place.ssh}/file; echo x > $TMPDIR/t && cat file"), place.root, os.environ["PATH"]
    )

    finished = subprocess.run(argv, capture_output=True, text=True, cwd=place.root, check=False, env={**os.environ, **variables})

    assert finished.stdout == "content\n"
    assert REFUSED.search(finished.stderr)


def test_the_configuration_of_the_workspace_is_out_of_sight_where_it_can_be(place: Place, means: Means) -> None:
    """Landlock cannot deny beneath what it allows: there, what a tool writes is configuration that nobody has approved."""
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
    "delete": "rm -f {log}; false",  # what counts is whether it is still there
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
    "a socket": "{python} -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{store}/forged.sock\")'",
    "a copy": "cp -r {store} ./copied && test -e ./copied/{name}",
    "a mount": "mount --bind {store} . && cat {name}",
    "an archive": "tar cf out.tar {folder} && tar tf out.tar | grep -q events",
}


@pytest.mark.timeout(400)  # a namespace in which everything is granted takes thousands of mounts
@pytest.mark.parametrize("where", ["in the data directory", "named by its user"])
@pytest.mark.parametrize("granted", [Declared(), Declared(read=("~",), write=("~", "/"))], ids=["as it is", "with everything granted"])
def test_no_attempt_on_the_log_works(place: Place, where: str, granted: Declared) -> None:
    """Whatever its user lets a tool reach besides: it can neither read, write nor delete what is recorded."""
    data = place.home / ".local" / "share" / "midturn"
    store = data / "workspaces" / "work-0123456789abcdef" if where == "in the data directory" else place.home / "elsewhere"
    log = store / LOG
    log.parent.mkdir(parents=True)
    log.write_text("recorded\n")
    private = (place.state, place.config, data)
    keep(store)
    own = Own(home=place.home, private=private, cache=place.home / ".cache" / "midturn" / "tools")
    box = Box(granted, own)
    names = {
        "log": log,
        "store": store,
        "folder": log.parent,
        "name": LOG,
        "up": "../" * len(place.root.parts),
        "python": sys.executable,
    }
    before = _everything(store)

    worked = [name for name, script in ATTEMPTS.items() if place.can(script.format(**names), box) or _everything(store) != before]

    assert worked == []


def _everything(store: Path) -> list[tuple[str, int, bytes]]:
    return [(str(path), path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for path in sorted(store.rglob("*"))]


def test_nothing_is_made_in_a_workspace_that_has_no_store(place: Place) -> None:
    assert place.can("true")
    assert not (place.root / ".midturn").exists()
