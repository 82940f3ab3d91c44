"""Offered tools: a list of names and toggles, applied in order."""

# Without `from __future__ import annotations`: msgspec reads what stands here, and would compile each annotation from text at every start.

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.errors import ConfigError
from midturn.values.text import did_you_mean

AllowToggle: TypeAlias = Literal["any", "never", "if_named"]


class Enable(Struct, frozen=True):
    """Whether a tool is offered, and whether `-t` and `-T` may change that."""

    state: bool = True
    allow_toggle: AllowToggle = "any"


class Toggle(Struct, frozen=True):
    """One `-t` (`on`) or `-T` of the command line, on the tool `name` or on all."""

    on: bool
    name: str | None = None


def offered(tools: Mapping[str, Enable], toggles: Sequence[Toggle]) -> tuple[str, ...]:
    """Return the names of the tools that a model is offered, in the order of `tools`.

    Toggles apply in the order given, and change `state` alone: a bare one where the policy is `any`, a named one unless it is `never`.

    Raises:
        ConfigError: A toggle names a tool that is not there, or one whose policy is `never`.
    """
    state = {name: enable.state for name, enable in tools.items()}
    for toggle in toggles:
        if toggle.name is None:
            state |= {name: toggle.on for name, enable in tools.items() if enable.allow_toggle == "any"}
        else:
            _check(toggle, tools)
            state[toggle.name] = toggle.on
    return tuple(name for name, on in state.items() if on)


def _check(toggle: Toggle, tools: Mapping[str, Enable]) -> None:
    flag, name = "-t" if toggle.on else "-T", toggle.name or ""
    if name not in tools:
        raise ConfigError(f"{flag} {name}: there is no such tool.{did_you_mean(name, tools)}")
    if tools[name].allow_toggle == "never":
        raise ConfigError(f'{flag} {name}: this tool is locked by `conversation.tools.{name}.enable.allow_toggle = "never"`.')
