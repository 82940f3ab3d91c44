"""`midturn init`: makes a workspace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import loaded_if_right, model_to_be_trusted
from midturn.cli.output import note, tell
from midturn.cli.place import environment
from midturn.cli.shown import Shown, line
from midturn.cli.starter import Starter, advice, choose
from midturn.config.approvals import Approvals, FileSubject, sha256
from midturn.config.places import state_directory
from midturn.errors import StoreError
from midturn.files.private import create_private
from midturn.store.workspace import Workspace


@click.command
@click.option("--review", is_flag=True, help="Have patches reviewed by a second model.")
def command(*, review: bool) -> ExitStatus:
    """Make this directory a workspace, with a configuration to begin from."""
    file = Path.cwd() / ".midturn" / "config.toml"
    if file.exists():
        tell("This is a workspace already; {} was left as it is.", _short(file))
        if review:
            note("To have patches reviewed, add what `midturn init --review` writes into an empty directory, or edit {}.", _short(file))
        for sentence in _about_the_model():
            tell(sentence)
        return ExitStatus.DONE
    starter = choose(environment(), review=review)
    Workspace.make(Path.cwd())
    _write(file, starter)
    tell("Wrote {}.", _short(file))
    for sentence in starter.says:
        tell(sentence)
    return ExitStatus.DONE


def _about_the_model() -> Sequence[Shown]:
    """Say how the workspace that is here gets a model, where it has none."""
    loaded = loaded_if_right()
    if loaded is None or loaded.settings.assistant.model.id is not None:
        return []
    waits = model_to_be_trusted(loaded)
    return [line("{}", waits)] if waits else advice(environment())


def _write(file: Path, starter: Starter) -> None:
    """Write the file, and approve it: its user has just asked for it."""
    data = starter.text.encode()
    try:
        create_private(file, data)
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}.") from error
    subject = FileSubject(path=file.resolve(), root=file.resolve().parents[1], sha256=sha256(data))
    Approvals.of(state_directory(), environment()).approve(subject)


def _short(file: Path) -> str:
    return str(file.relative_to(Path.cwd()))
