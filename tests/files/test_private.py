"""Small files with decisions of the user.

A file that another user could have written is not trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midturn.security.private_files import (
    create_private,
    ensure_private,
    read_private,
    write_private,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file written by this user."""
    path = tmp_path / "file"
    write_private(path, b"mine")
    return path


@pytest.fixture(params=[0o022, 0o000, 0o277], ids=["umask 022", "umask 000", "umask 277"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_file_of_its_user_is_read(file: Path) -> None:
    assert read_private(file) == b"mine"
    file.chmod(0o644)
    assert read_private(file) == b"mine"


def a_link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


def a_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_group_may_write(file: Path) -> None:
    file.chmod(0o620)


def anybody_may_write(file: Path) -> None:
    file.chmod(0o602)


@pytest.mark.parametrize(
    "spoiled", [Path.unlink, a_link, a_directory, a_fifo, a_group_may_write, anybody_may_write]
)
def test_file_writable_by_others_is_not_read(file: Path, spoiled: Callable[[Path], None]) -> None:
    spoiled(file)

    assert read_private(file) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_file_of_another_user_is_not_read(file: Path) -> None:
    os.chown(file, 12_345, 12_345)

    assert read_private(file) is None


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("write", [write_private, create_private])
def test_written_file_is_private_without_leftovers(
    tmp_path: Path, write: Callable[[Path, bytes], None]
) -> None:
    write(tmp_path / "file", b"mine")

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "file").read_bytes() == b"mine"
    assert names(tmp_path) == ["file"]


def test_write_replaces_a_file_and_create_does_not(file: Path) -> None:
    create_private(file, b"second")
    assert file.read_bytes() == b"mine"

    write_private(file, b"third")
    assert file.read_bytes() == b"third"
    assert names(file.parent) == ["file"]


def test_failed_write_leaves_no_leftovers(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()

    with pytest.raises(IsADirectoryError):
        write_private(tmp_path / "file", b"mine")

    assert names(tmp_path) == ["file"]


def test_file_instead_of_a_directory_is_an_error(file: Path) -> None:
    with pytest.raises(FileExistsError):
        ensure_private(file)
    ensure_private(file.parent)
