from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path, PurePosixPath

import pytest

from midturn.tools.fs import writing
from midturn.tools.fs.beneath import Beneath, Unsupported
from midturn.tools.fs.paths import Missing
from midturn.tools.fs.writing import (
    Changed,
    check_free,
    create,
    move,
    read_to_change,
    remove,
    replace,
)
from midturn.tools.returned import Rejected

PLAN = PurePosixPath("docs/plan.md")


def refuse(*_: object) -> None:
    raise Unsupported


@pytest.fixture(params=["renameat2", "rename"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace on a system that can exchange files atomically, and on one that cannot."""
    if request.param == "rename":
        monkeypatch.setattr(writing, "exchange", refuse)
        monkeypatch.setattr(writing, "rename_exclusively", refuse)
    inside = tmp_path / "root"
    (inside / "docs").mkdir(parents=True)
    (inside / PLAN).write_text("plan")
    return inside


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_file_is_created_with_its_missing_directories(root: Path) -> None:
    with Beneath(root) as beneath:
        create(beneath, PurePosixPath("a/b/c.txt"), b"new")

    assert files(root) == {"a/b/c.txt": "new", "docs/plan.md": "plan"}
    assert (root / "a/b/c.txt").stat().st_mode & 0o111 == 0


def test_creating_never_overwrites(root: Path) -> None:
    with Beneath(root) as beneath, pytest.raises(Changed):
        create(beneath, PLAN, b"new")

    assert files(root) == {"docs/plan.md": "plan"}


def test_a_file_is_replaced_completely_and_keeps_its_permissions(root: Path) -> None:
    (root / PLAN).chmod(0o755)
    with Beneath(root) as beneath:
        replace(beneath, PLAN, b"new plan", b"plan")

    assert files(root) == {"docs/plan.md": "new plan"}
    assert (root / PLAN).stat().st_mode & 0o777 == 0o755


def test_only_the_displayed_content_is_replaced_or_removed(root: Path) -> None:
    with Beneath(root) as beneath:
        with pytest.raises(Changed):
            replace(beneath, PLAN, b"new", b"another")
        with pytest.raises(Changed):
            remove(beneath, PLAN, b"another")

    assert files(root) == {"docs/plan.md": "plan"}


def test_a_file_is_removed(root: Path) -> None:
    with Beneath(root) as beneath:
        remove(beneath, PLAN, b"plan")

    assert files(root) == {}


def test_a_file_is_never_moved_over_another(root: Path) -> None:
    (root / "taken").write_text("taken")
    with Beneath(root) as beneath:
        with pytest.raises(Rejected, match="taken exists"):
            move(beneath, PLAN, PurePosixPath("taken"))
        move(beneath, PLAN, PurePosixPath("new/place.md"))

    assert files(root) == {"new/place.md": "plan", "taken": "taken"}


def test_a_hard_link_elsewhere_keeps_its_content(root: Path, tmp_path: Path) -> None:
    """A change must not affect the file under its other name."""
    os.link(root / PLAN, tmp_path / "outside")
    with Beneath(root) as beneath:
        replace(beneath, PLAN, b"new", b"plan")

    assert (tmp_path / "outside").read_text() == "plan"


def test_a_read_only_file_is_not_written(root: Path) -> None:
    """Renaming another file over it would bypass its permissions."""
    (root / PLAN).chmod(0o444)
    with Beneath(root) as beneath:
        for attempt in (
            lambda: read_to_change(beneath, PLAN),
            lambda: replace(beneath, PLAN, b"new", b"plan"),
            lambda: remove(beneath, PLAN, b"plan"),
            lambda: move(beneath, PLAN, PurePosixPath("elsewhere")),
        ):
            with pytest.raises(Rejected, match="is read-only"):
                attempt()

    assert files(root) == {"docs/plan.md": "plan"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_keeps_its_owner(root: Path) -> None:
    os.chown(root / PLAN, 1234, 4321)
    with Beneath(root) as beneath:
        replace(beneath, PLAN, b"new", b"plan")

    assert ((root / PLAN).stat().st_uid, (root / PLAN).stat().st_gid) == (1234, 4321)


def test_links_and_directories_are_not_written(root: Path) -> None:
    (root / "link").symlink_to("docs/plan.md")
    with Beneath(root) as beneath:
        for path, kind in (("link", "a symbolic link"), ("docs", "a folder")):
            with pytest.raises(Rejected, match=f"{path} is {kind}"):
                read_to_change(beneath, PurePosixPath(path))
        with pytest.raises(Missing):
            read_to_change(beneath, PurePosixPath("docs/nope"))


def test_a_dangling_link_prevents_creation(root: Path) -> None:
    (root / "link").symlink_to("nowhere")
    with Beneath(root) as beneath:
        with pytest.raises(Rejected):
            check_free(beneath, PurePosixPath("link"))
        with pytest.raises(Changed):
            create(beneath, PurePosixPath("link"), b"new")

    assert not (root / "nowhere").exists()


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\u202eb", "a\u200bb", "."])
def test_an_invisible_name_is_not_created(root: Path, name: str) -> None:
    with Beneath(root) as beneath, pytest.raises(Rejected):
        check_free(beneath, PurePosixPath(name))


def test_a_failed_write_leaves_only_the_old_file(root: Path) -> None:
    """Like on a full disk. The file size is limited in a child process."""
    script = f"""
import resource, signal, sys
from pathlib import Path, PurePosixPath
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.writing import replace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Beneath(Path({str(root)!r})) as beneath:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    replace(beneath, PurePosixPath("docs/plan.md"), b"x" * 5000, b"plan")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert "docs/plan.md cannot be used: File too large" in done.stderr
    assert files(root) == {"docs/plan.md": "plan"}


def test_a_concurrent_change_is_never_lost(tmp_path: Path) -> None:
    """Another program saves the file repeatedly during the replacement.

    Its last version is either in the file, or was read before it was replaced.
    """
    file = tmp_path / "file"
    file.write_bytes(b"0")
    stop = threading.Event()
    saved = [b"0"]
    dice = random.Random(0)

    def save() -> None:
        while not stop.is_set():
            saved.append(b"%d" % len(saved))
            (tmp_path / "saving").write_bytes(saved[-1])
            (tmp_path / "saving").rename(file)
            time.sleep(dice.choice((0.0005, 0.005, 0.05)))

    editor = threading.Thread(target=save)
    editor.start()
    end = time.monotonic() + 0.7
    replaced: list[bytes] = []
    try:
        with Beneath(tmp_path) as beneath:
            while time.monotonic() < end or (not replaced and time.monotonic() < end + 30):
                seen = read_to_change(beneath, PurePosixPath("file"))
                try:
                    replace(beneath, PurePosixPath("file"), b"ours after " + seen, seen)
                except Changed:
                    continue
                replaced.append(seen)
    finally:
        stop.set()
        editor.join()

    left = file.read_bytes()
    while left.startswith(b"ours after "):
        left = left.removeprefix(b"ours after ")
    assert replaced
    assert left == saved[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
