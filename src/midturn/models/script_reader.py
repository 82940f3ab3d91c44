"""From a file or from Python values to a script, with every problem at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Struct

from midturn.core.json_value import Json
from midturn.errors import ConfigError, Problem
from midturn.models.script import Script


def read_script(path: Path) -> Script:
    """Read a `.toml` or `.json` script.

    Raises:
        ConfigError: The file cannot be read, is not TOML or JSON, or breaks a rule; the message lists every problem with its place.
    """
    return build_script(_parse(path), origin=str(path))


def build_script(document: object, *, origin: str) -> Script:
    """Check the decoded `document` and return the script in it.

    Raises:
        ConfigError: As of `read_script`; `origin` heads the message.
    """
    plain = _plain(document, origin)
    try:
        script = msgspec.convert(plain, Script)
    except msgspec.ValidationError:  # it names the first problem only
        problems = [*_problems(plain, Script, "")]
    else:
        problems = [*_contradictions(script)]
        if not problems:
            return script
    lines = "\n".join(f"  {problem}" for problem in problems)
    raise ConfigError(f"{origin} is not a valid script:\n{lines}")


def _parse(path: Path) -> object:
    try:
        if path.exists() and not path.is_file():  # a fifo would hold us up for ever
            raise ConfigError(f"{path}: the script cannot be read: it is not a regular file.")
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix:
            case ".toml":
                import tomllib  # a program writes its script in Python

                return tomllib.loads(text)
            case ".json":
                return _decoded(text)
            case suffix:
                raise ConfigError(f"{path}: a script is a `.toml` or a `.json` file, not `{suffix or path.name}`.")
    except OSError as error:
        raise ConfigError(f"{path}: the script cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:  # both decoders and the text codec raise a ValueError that names the place
        raise ConfigError(f"{path}: {error}") from error


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        import json  # slow to import: only where something is wrong, for its errors name the line

        return json.loads(text)


def _plain(document: object, origin: str) -> Json:
    """Write what TOML and Python know beyond JSON (dates, tuples, enums) as JSON."""
    try:
        return cast("Json", msgspec.json.decode(msgspec.json.encode(document)))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not a valid script: {error}") from error


def _problems(value: Json, shape: object, pointer: str) -> Iterator[Problem]:
    """Find everything in `value` that does not fit `shape`: a struct, a tuple of structs, or what msgspec converts by itself."""
    if get_origin(shape) is Annotated and get_origin(get_args(shape)[0]) is tuple and value:
        shape = get_args(shape)[0]
    if get_origin(shape) in {Union, UnionType} and value is not None:
        options = [option for option in get_args(shape) if option is not type(None)]
        shape = options[0] if len(options) == 1 else shape
    if get_origin(shape) is tuple and isinstance(value, list):
        for index, item in enumerate(cast("Sequence[Json]", value)):
            yield from _problems(item, get_args(shape)[0], f"{pointer}/{index}")
    elif isinstance(shape, type) and issubclass(shape, Struct) and isinstance(value, Mapping):
        yield from _field_problems(cast("Mapping[str, Json]", value), shape, pointer)
    else:
        try:
            msgspec.convert(value, cast("Any", shape))
        except msgspec.ValidationError as error:
            yield Problem(pointer, f"{str(error).partition(' - at ')[0]}.")


def _field_problems(value: Mapping[str, Json], shape: type[Struct], pointer: str) -> Iterator[Problem]:
    from midturn.core.suggestion import did_you_mean  # only where a script is wrong

    fields = {field.name: field for field in msgspec.structs.fields(shape)}
    for key, item in value.items():
        if key in fields:
            yield from _problems(item, fields[key].type, f"{pointer}/{key}")
        else:
            hint = did_you_mean(key, fields) or f" Known are {', '.join(f'`{name}`' for name in fields)}."
            yield Problem(f"{pointer}/{key}", f"unknown key.{hint}")
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem(pointer, f"`{name}` is missing.")


def _contradictions(script: Script) -> Iterator[Problem]:
    """Find what fits its shape and still says nothing, or two things at once."""
    for index, reply in enumerate(script.replies):
        if reply.text is None and reply.reasoning is None and not reply.calls and not reply.error:
            yield Problem(f"/replies/{index}", "it says nothing. Give it `text`, `reasoning`, `calls` or `error`.")
        if reply.calls and reply.error:
            yield Problem(f"/replies/{index}", "it has both `calls` and `error`. A request that fails calls no tool.")
    for index, inquiry in enumerate(script.inquiries):
        for place, answer in enumerate(inquiry.answers):
            if (answer.answer is UNSET) == (answer.error is None):
                yield Problem(f"/inquiries/{index}/answers/{place}", "it needs either `answer` or `error`.")
