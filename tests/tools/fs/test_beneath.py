from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest

from midturn.tools.fs import beneath as beneath_module
from midturn.tools.fs.beneath import Beneath, Unsupported
from midturn.tools.fs.paths import Missing
from midturn.tools.returned import Rejected
from support.swapped_folder import swapping_with_symlink


def without_openat2(*_: object) -> int:
    raise Unsupported


@pytest.fixture(params=["openat2", "walk"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace next to an unrelated file, with and without support of the kernel."""
    if request.param == "walk":
        monkeypatch.setattr(beneath_module, "open_beneath", without_openat2)
    (tmp_path / "outside.txt").write_text("outside")
    inside = tmp_path / "root"
    (inside / "docs").mkdir(parents=True)
    (inside / "docs" / "plan.md").write_text("plan")
    return inside


def read(root: Path, path: str) -> bytes:
    with Beneath(root) as beneath:
        return beneath.read(PurePosixPath(path))


def test_a_file_is_read(root: Path) -> None:
    assert read(root, "docs/plan.md") == b"plan"


def test_a_missing_file_is_reported(root: Path) -> None:
    with pytest.raises(Missing, match=r"There is no docs/nope\.md in the workspace"):
        read(root, "docs/nope.md")


@pytest.mark.parametrize(
    "target",
    [
        "../outside.txt",
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "..",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
    ],
)
def test_a_link_to_the_outside_is_not_followed(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "docs" / "folder").symlink_to(Path(target).parent)

    for path in ("link", "link/outside.txt", f"docs/folder/{Path(target).name}"):
        with pytest.raises(Rejected):
            read(root, path)


def test_a_path_with_parent_segments_is_not_followed(root: Path) -> None:
    for path in ("../outside.txt", "docs/../../outside.txt"):
        with pytest.raises(Rejected):
            read(root, path)


def test_an_absolute_path_is_not_followed(root: Path) -> None:
    with pytest.raises(Rejected):
        read(root, str(root.parent / "outside.txt"))
    with (
        pytest.raises(Rejected),
        Beneath(root) as beneath,
        beneath.folder(PurePosixPath(root.parent)),
    ):
        pass


def test_an_inner_link_is_followed_only_with_kernel_support(
    root: Path, request: pytest.FixtureRequest
) -> None:
    (root / "link.md").symlink_to("docs/plan.md")
    if "openat2" in request.node.name:
        assert read(root, "link.md") == b"plan"
    else:
        with pytest.raises(Rejected, match="symbolic link"):
            read(root, "link.md")


def test_only_regular_files_are_opened(root: Path) -> None:
    """A pipe would block, and a device may have side effects when it is opened."""
    os.mkfifo(root / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "socket"))
    with server:
        for path, kind in (
            ("pipe", "a pipe, socket or device"),
            ("socket", "a pipe, socket or device"),
            ("docs", "a folder"),
        ):
            with pytest.raises(Rejected, match=f"{path} is {kind}, not a file"):
                read(root, path)


def test_a_too_large_file_is_refused_without_reading_it(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(40 * 1024 * 1024)

    with pytest.raises(Rejected, match="larger than 32 MiB"):
        read(root, "huge")


def test_no_descriptor_stays_open(root: Path) -> None:
    (root / "link").symlink_to("/etc/passwd")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path in ("docs/plan.md", "nope", "link", "docs", "docs/plan.md/x", "../x"):
        with pytest.raises(Rejected) if path != "docs/plan.md" else nothing():
            read(root, path)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


@contextmanager
def nothing() -> Generator[None, None, None]:
    yield


@pytest.mark.parametrize(
    "path",
    [
        ".midturn/config.toml",
        ".midturn",
        "a/.midturn/x",
        ".git/hooks/pre-commit",
        ".git",
        "sub/.git/config",
        ".MidTurn/x",
        ".GIT/x",
        ".git./x",
        "\uff0egit/x",
    ],
)
def test_control_files_of_midturn_and_git_are_not_writable_even_if_absent(
    root: Path, path: str
) -> None:
    with (
        Beneath(root) as beneath,
        pytest.raises(Rejected, match="belongs to"),
        beneath.made_parent(PurePosixPath(path)),
    ):
        pass
    assert not (root / path).exists()


def test_a_link_to_a_control_file_is_not_writable(root: Path) -> None:
    (root / ".midturn").mkdir()
    (root / "innocent").symlink_to(".midturn")

    with (
        Beneath(root) as beneath,
        pytest.raises(Rejected),
        beneath.parent(PurePosixPath("innocent/config.toml")),
    ):
        pass


def test_the_users_configuration_is_not_writable_in_a_home_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(root))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

    with (
        Beneath(root) as beneath,
        pytest.raises(Rejected),
        beneath.made_parent(PurePosixPath(".config/midturn/config.toml")),
    ):
        pass


def test_replacing_a_folder_with_a_link_never_leads_outside(root: Path) -> None:
    seen: set[bytes | None] = set()
    began = time.monotonic()
    with swapping_with_symlink(root, "outside.txt"), Beneath(root) as beneath:
        while time.monotonic() < began + (
            0.7 if b"inside" in seen else 30
        ):  # the folder may exist for short moments only
            try:
                seen.add(beneath.read(PurePosixPath("a/outside.txt")))
            except Rejected:
                seen.add(None)

    assert b"outside" not in seen
    assert b"inside" in seen
