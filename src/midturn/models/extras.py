"""Which providers' libraries are installed, and how to install one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from midturn.models.profiles import Family

_NEEDS: Final[dict[Family, tuple[str, str]]] = {  # the extra, and the module that it brings
    "anthropic": ("anthropic", "anthropic"),
    "openai": ("openai", "openai"),
    "google": ("google", "google.genai"),
    "openai-compatible": ("openai", "openai"),
}


def is_installed(family: Family) -> bool:
    """Whether what `family` needs can be imported; nothing heavy is imported to find out."""
    try:
        return find_spec("pydantic_ai") is not None and find_spec(_NEEDS[family][1]) is not None
    except ModuleNotFoundError:  # the package around the module is missing
        return False


def install_command(family: Family) -> str:
    """Return the command that installs what `family` needs."""
    return f"pip install 'midturn[{_NEEDS[family][0]}]'"
