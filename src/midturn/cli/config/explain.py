"""`midturn config explain`."""

from __future__ import annotations

import click
import msgspec

from midturn.cli.completing import complete_keys
from midturn.cli.config.toml import toml
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import load_here, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json, tell
from midturn.cli.shown import Shown, line
from midturn.config.explain import Explanation, Setting, explain
from midturn.core.json_value import Json


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def command(key: str, *, as_json: bool) -> ExitStatus:
    """Say what KEY means, which value holds, and every place that sets it: the first one counts."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    found = explain(loaded, key)
    if as_json:
        say_json([_json(one) for one in found])
        return ExitStatus.DONE
    for one in found:
        _print(one)
    return ExitStatus.DONE


def _print(one: Explanation) -> None:
    if one.settings:
        say("{} = {}", one.key, toml(one.value))
    else:
        say("{} is not set", one.key)
    if one.help:
        tell("  {}", one.help)
    for place, setting in enumerate(one.settings):
        tell(_setting(setting, one, holds=place == 0))


def _setting(setting: Setting, one: Explanation, *, holds: bool) -> Shown:
    """Show who set a value; the key only where it is spelled differently, the value only where it does not hold."""
    place = line("") if setting.place == setting.layer else line(", {}", setting.place)
    spelled = line(", as {}", setting.key) if setting.key != one.key else line("")
    if holds:
        return line("  set by {}{}{}", setting.layer, place, spelled)
    return line("  over {}{}{}: {}", setting.layer, place, spelled, toml(setting.value))


def _json(one: Explanation) -> Json:
    return msgspec.to_builtins(one)
