"""Each public name and signature is listed in `public_face.txt`, so that every change of the
public API changes that file too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import midturn as mt
import midturn.testing
from support.documents import is_updating

FACE = Path(__file__).with_name("public_face.txt")


def signature(value: object) -> str:
    """Return the signature of a callable as source text, or an empty text for other values and
    for classes built from fields.
    """
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))  # type: ignore[arg-type]  # what cannot be called is caught
    except (TypeError, ValueError):
        return ""


def members(kind: Any) -> Iterator[str]:
    """Yield the public methods, properties and fields of a class."""
    if issubclass(kind, msgspec.Struct):
        yield from (f"  .{field.name}" for field in msgspec.structs.fields(kind))
    for name in sorted(dir(kind)):
        found = inspect.getattr_static(kind, name)
        is_ours = any(
            name in vars(base) and base.__module__.startswith("midturn") for base in kind.__mro__
        )
        if name.startswith("_") or not is_ours or type(found).__name__ == "member_descriptor":
            continue
        yield f"  .{name}{signature(getattr(kind, name)) if callable(getattr(kind, name)) else ''}"


def face(names: Iterator[tuple[str, object]]) -> Iterator[str]:
    """Yield a line for each name and for each class member."""
    for name, value in names:
        if not inspect.isclass(value):
            yield f"{name}{signature(value)}"
            continue
        yield f"class {name}" + (
            "" if issubclass(value, msgspec.Struct | BaseException) else signature(value)
        )
        yield from members(value)


def everything() -> Iterator[tuple[str, object]]:
    for name in dir(mt):
        if name not in ("__version__", "events", "UNSET"):
            yield f"midturn.{name}", getattr(mt, name)
    for name in dir(midturn.testing):
        yield f"midturn.testing.{name}", getattr(midturn.testing, name)


def test_public_names_match_public_face_txt() -> None:
    now = "\n".join(face(everything())) + "\n"
    if is_updating():
        FACE.write_text(now, encoding="utf-8")
    assert now == FACE.read_text(encoding="utf-8"), (
        "if that is meant, set UPDATE_DOCUMENTS=1 to write it anew"
    )


def test_every_public_class_and_function_has_a_docstring_of_its_own() -> None:
    callables = [
        (name, value)
        for name, value in everything()
        if inspect.isclass(value) or inspect.isfunction(value)
    ]
    assert [name for name, value in callables if not (value.__doc__ or "").strip()] == []


MADE_BY_PROGRAMS = (
    mt.Agent,
    mt.Inquirer,
    mt.FormWalker,
    mt.FunctionModel,
    mt.ScriptedModel,
    mt.ProviderModel,
    mt.ScriptedPrompter,
    mt.InboxPrompter,
    mt.InputPrompter,
)


@pytest.mark.parametrize("kind", MADE_BY_PROGRAMS, ids=lambda kind: kind.__name__)
def test_help_of_constructors_names_their_parameters(kind: type) -> None:
    taught = (inspect.getdoc(kind) or "") + (inspect.getdoc(kind.__init__) or "")

    assert [name for name in inspect.signature(kind).parameters if f"{name}:" not in taught] == []
