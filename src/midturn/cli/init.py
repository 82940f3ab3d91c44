"""`midturn init`: makes a workspace (spec 8.2)."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import say
from midturn.cli.starter import starter_config
from midturn.errors import StoreError
from midturn.store.workspace import Workspace


@click.command
@click.option("--review", is_flag=True, help="Have patches reviewed by a second model.")
def command(*, review: bool) -> ExitStatus:
    """Make this directory a workspace, with a configuration to begin from."""
    workspace = Workspace.make(Path.cwd())
    file = workspace.home / "config.toml"
    if file.exists():
        say(f"This is a workspace already; {file.relative_to(workspace.root)} was left as it is.")
        return ExitStatus.DONE
    text, chosen = starter_config(review=review)
    try:
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
    say(f"Wrote {file.relative_to(workspace.root)}. {chosen}")
    return ExitStatus.DONE
