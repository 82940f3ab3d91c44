"""A store that other users may write is refused everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores.opening import store_at
from midturn.stores.workspace import check_owner


@pytest.mark.parametrize("opened", [mt.open_store, store_at])
def test_world_writable_store_is_refused_with_advice(tmp_path: Path, opened: object) -> None:
    assert callable(opened)
    store = tmp_path / "conversations"
    store.mkdir()
    store.chmod(0o777)
    with pytest.raises(
        mt.ConfigError,
        match=rf"The store {store} may be written by everybody \(mode 0777.*chmod o-w {store}",
    ):
        opened(store)
    store.chmod(0o1777)  # other users may still add conversations
    with pytest.raises(mt.ConfigError, match="may be written by everybody"):
        opened(store)
    store.chmod(0o770)
    opened(store)


def test_linked_store_is_checked_at_its_target(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(mt.ConfigError, match="may be written by everybody"):
        mt.open_store(tmp_path / "link")


def test_store_in_a_world_writable_directory_is_refused(tmp_path: Path) -> None:
    above = tmp_path / "above"
    (above / "conversations").mkdir(parents=True)
    above.chmod(0o777)
    for name in ("conversations", "new"):
        with pytest.raises(mt.ConfigError, match=f"chmod o-w {above}"):
            mt.open_store(above / name)
    above.chmod(0o1777)  # as /tmp
    for name in ("conversations", "new"):
        mt.open_store(above / name)


def test_a_store_of_another_user_is_refused_except_to_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "conversations"
    store.mkdir()
    owner = store.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1_000)
    if owner:
        with pytest.raises(
            mt.ConfigError,
            match=rf"belongs to another user \(user {owner}; you are user {owner + 1_000}\).*chown",
        ):
            check_owner(store)
    else:
        check_owner(store)  # root may write everywhere
        os.chown(store, 4_321, -1)
        with pytest.raises(
            mt.ConfigError,
            match=r"belongs to another user \(user 4321; you are user 1000\).*chown -R 1000",
        ):
            check_owner(store)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check_owner(store)
