"""Every command refuses a store that other users may write, with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import CommandLine


@pytest.mark.parametrize("how", ["--store", "configuration"])
def test_every_command_refuses_it(midturn: CommandLine, tmp_path: Path, how: str) -> None:
    store = tmp_path / "open to all"
    store.mkdir()
    store.chmod(0o777)
    named = {} if how == "--store" else {"MIDTURN_CFG_CONVERSATION__STORE": str(store)}
    options = ["--store", str(store)] if how == "--store" else []
    for command in (["inbox"], ["conversation", "ls"], ["query", "-m", midturn.script(), "Hello"]):
        refused = midturn.run(*command, *options, **named)
        assert refused.status != 0
        assert f"The store {store} may be written by everybody (mode 0777" in " ".join(
            refused.stderr.split()
        )
