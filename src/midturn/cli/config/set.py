"""`midturn config set`."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.assistant.chosen import INHERIT
from midturn.cli.completing import complete_keys, complete_values
from midturn.cli.config.toml import toml
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import loaded_if_right, said_of_ignored
from midturn.cli.output import note
from midturn.cli.place import environment
from midturn.cli.shown import block, line
from midturn.compose.models import refuse_no_model, refuse_unusable
from midturn.config.approvals import Approvals
from midturn.config.edit import SetValue, keep_trust, set_value
from midturn.config.explain import explain
from midturn.config.load import Loaded
from midturn.config.places import shown, state_directory, user_config_file
from midturn.config.tree import KeyPath
from midturn.errors import ConfigError
from midturn.sandbox.doors import for_people_only
from midturn.store.workspace import Workspace

_MAIN = ("assistant", "model", "id")


@click.command
@click.argument("key", shell_complete=complete_keys)
@click.argument("value", shell_complete=complete_values)
@click.option("--user", is_flag=True, help="For all your workspaces: write your own file, not this workspace's.")
def command(key: str, value: str, *, user: bool) -> ExitStatus:
    """Set KEY to VALUE (TOML, or else a string) in this workspace's file; comments and order stay."""
    for_people_only("change the configuration")
    workspace = Workspace.find(Path.cwd())
    if user:
        file = user_config_file().resolve()
        _set(file, shown(file), key, value)
    elif workspace is None:
        raise ConfigError("This is not a workspace. `midturn init` makes one, `--user` writes your own file.")
    else:
        _set_here(workspace, key, value)
    return ExitStatus.DONE


def _set_here(workspace: Workspace, key: str, value: str) -> None:
    """Write the workspace's file; who could approve it before may have it stay approved."""
    before = loaded_if_right()  # setting a value may be how it is mended
    edited = _set(workspace.home / "config.toml", ".midturn/config.toml", key, value)
    after = loaded_if_right()
    if before and after and keep_trust(before, after, edited, Approvals.of(state_directory(), environment())):
        after = loaded_if_right()
    if after is not None:
        _warn_if_overridden(after, key)


def _set(file: Path, name: str, key: str, value: str) -> SetValue:
    edited = set_value(file, name, key, value, _check_model)
    note("midturn: {} = {} in {}.", key, toml(edited.value), name)
    return edited


def _check_model(key: KeyPath, id: str) -> None:
    """Refuse what is no model; one whose provider is still to be configured is only told of.

    Raises:
        ConfigError: No turn could ever ask it.
    """
    if id == INHERIT and key != _MAIN:
        return
    refuse_no_model(id)
    loaded = loaded_if_right()
    try:
        refuse_unusable(id, loaded.settings.llm if loaded else {})
    except ConfigError as error:
        note("midturn: {}", str(error))


def _warn_if_overridden(loaded: Loaded, key: str) -> None:
    """Say so if what was written is not what holds."""
    found = explain(loaded, key)
    if len(found) == 1 and found[0].settings and found[0].settings[0].layer != "workspace":
        note("midturn: it has no effect here: {} sets it, too, and comes first.", found[0].settings[0].place)
    for sentence in said_of_ignored(loaded):
        note(line("midturn: {}", block(sentence)))
