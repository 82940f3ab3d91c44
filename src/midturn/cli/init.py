"""`midturn init`: create a workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from msgspec import Struct

from midturn.cli.command_context import environment
from midturn.cli.config import set_here
from midturn.cli.loading import loaded_if_right, model_to_be_trusted
from midturn.cli.output import ExitStatus, Shown, line, note, tell
from midturn.config.approvals import Approvals, FileSubject, sha256
from midturn.config.places import state_directory
from midturn.errors import StoreError
from midturn.models.available import AvailableProvider, available_providers
from midturn.models.registry import KEYS, PREFERRED, Lookup, preferred_provider
from midturn.security.private_files import create_private
from midturn.stores.workspace import Workspace

# --------------------------------------------------------------------------------------------------
# The configuration that `midturn init` writes


class FoundModels(Struct, frozen=True, kw_only=True):
    """The main model (`writes`), and a second model for reviews if one is available (`reviews`).

    `why` is the reason for the choice. `then` names the remaining step for the user.
    """

    writes: str
    reviews: str | None
    why: Shown
    then: Shown | None = None
    server: AvailableProvider | None = None


class Starter(Struct, frozen=True):
    """The text of the configuration file, and messages about it."""

    text: str
    says: Sequence[Shown]


def choose(environment: Mapping[str, str], *, review: bool) -> Starter:
    """Detect the available models, and return a configuration for them."""
    choice = _choice(available_providers(Lookup(environment=environment)), environment)
    return Starter(
        "\n".join([*_text(choice), *(_review(choice) if review else [])]) + "\n",
        [*_says(choice, review=review)],
    )


def advice(environment: Mapping[str, str]) -> Sequence[Shown]:
    """Return advice on configuring a model in an existing workspace that has none."""
    choice = found_here(environment)
    if choice is None:
        return [_nothing_chosen()]
    return [
        line(
            "No model is configured. One is available, {}; to use it, add this to the file:",
            choice.why,
        ),
        line(""),
        *map(_row, _text(choice)),
    ]


def found_here(environment: Mapping[str, str]) -> FoundModels | None:
    """Search for an API key or a local server."""
    return _choice(available_providers(Lookup(environment=environment)), environment)


def _row(text: str) -> Shown:
    return line("{}", text)


def _nothing_chosen() -> Shown:
    names = ", ".join(KEYS[provider][0] for provider in PREFERRED)
    sets = PREFERRED["anthropic"][0]
    return line(
        "No model was chosen: none of {} is set, and no local server is running. After you have set"
        " a key, run `midturn config set assistant.model.id {}`. `midturn demo` works without a"
        " model.",
        names,
        sets,
    )


def _choice(
    at_hand: Sequence[AvailableProvider], environment: Mapping[str, str]
) -> FoundModels | None:
    """Return the model of a provider whose API key is set, or else the model of a local server."""
    by_name = {found.provider: found for found in at_hand}
    preferred = preferred_provider(environment)
    if preferred:
        provider, variable = preferred
        writes, reviews = PREFERRED[provider]
        missing = by_name[provider].missing
        then = line("Its library is not installed yet: {}", missing) if missing else None
        return FoundModels(
            writes=writes, reviews=reviews, why=line("because {} is set", variable), then=then
        )
    server = next((found for found in at_hand if found.base_url and found.models), None)
    if server is None:
        return None
    writes, *others = server.models
    reviews = others[0] if others else None
    return FoundModels(
        writes=writes,
        reviews=reviews,
        why=line("because a server is running at {}", server.base_url),
        server=server,
    )


def _text(choice: FoundModels | None) -> Iterator[str]:
    yield "# To see what a key means and where it is set: midturn config explain KEY"
    yield ""
    yield "[assistant]"
    if choice is None:
        yield (
            f"# model.id = {_quoted(PREFERRED['anthropic'][0])}   # the API key is read from"
            " ANTHROPIC_API_KEY"
        )
        return
    yield f"model.id = {_quoted(choice.writes)}"
    if choice.server:
        yield ""
        yield f"[providers.llm.{choice.server.provider}]"
        yield 'kind = "openai-compatible"'
        yield f"base_url = {_quoted(choice.server.base_url or '')}"


def _review(choice: FoundModels | None) -> Iterator[str]:
    """Yield configuration lines that let a second model review patches."""
    yield ""
    yield "# Another model reviews each change to a file. If it rejects one, you are asked."
    yield "[conversation.tools.fs_modify_file.questions.apply_changes.target]"
    if choice and choice.reviews:
        yield f"model.id = {_quoted(choice.reviews)}"
    else:
        yield (
            f"# model.id = {_quoted(PREFERRED['anthropic'][1])}   # use another model than the one"
            " that writes"
        )
    yield "escalation = true"


def _says(choice: FoundModels | None, *, review: bool) -> Iterator[Shown]:
    if choice is None:
        yield _nothing_chosen()
    else:
        yield line("The model is {}, {}.", choice.writes, choice.why)
        if choice.then:
            yield choice.then
    if review:
        reviewer = choice.reviews if choice else None
        yield line(
            "Changes to files are reviewed by {}.",
            reviewer or "the same model, until you configure another in the file",
        )
    if choice:
        yield line('Try it: midturn query "What is in this directory?"')


def _quoted(text: str) -> str:
    """Return a TOML string."""
    return json.dumps(text)


@click.command
@click.option("--review", is_flag=True, help="Add a second model that reviews patches")
def command(*, review: bool) -> ExitStatus:
    """Create a workspace in this directory"""
    file = Path.cwd() / ".midturn" / "config.toml"
    if file.exists():
        return _update_existing(file, review=review)
    starter = choose(environment(), review=review)
    Workspace.make(Path.cwd())
    _write(file, starter)
    tell("Wrote {}.", _short(file))
    for sentence in starter.says:
        tell(sentence)
    return ExitStatus.DONE


def _update_existing(file: Path, *, review: bool) -> ExitStatus:
    """Leave an existing workspace unchanged, except for its model.

    If it has no model and an API key is available, configure a model.
    """
    loaded = loaded_if_right()
    lacks_model = loaded is not None and loaded.settings.assistant.model.id is None
    waits = model_to_be_trusted(loaded) if loaded and lacks_model else None
    choice = found_here(environment()) if lacks_model and not waits else None
    picked = choice if choice and not choice.server else None
    if picked:
        tell(
            "This directory is already a workspace. Its model is now {}, {}.",
            picked.writes,
            picked.why,
        )
        set_here(Workspace(file.parents[1]), "assistant.model.id", picked.writes)
    else:
        tell("This directory is already a workspace; {} was not changed.", _short(file))
    if review:
        note(
            "To add a review of patches, run `midturn init --review` in an empty directory and copy"
            " its configuration, or edit {}.",
            _short(file),
        )
    for sentence in _about_the_model(waits, picked) if lacks_model else ():
        tell(sentence)
    return ExitStatus.DONE


def _about_the_model(waits: str | None, picked: FoundModels | None) -> Sequence[Shown]:
    """Return the remaining steps before the model can be used."""
    if picked:
        return [picked.then] if picked.then else []
    return [line("{}", waits)] if waits else advice(environment())


def _write(file: Path, starter: Starter) -> None:
    """Write the file and approve it, because the user just requested it."""
    data = starter.text.encode()
    try:
        create_private(file, data)
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror}.") from error
    subject = FileSubject(path=file.resolve(), root=file.resolve().parents[1], sha256=sha256(data))
    Approvals.of(state_directory(), environment()).approve(subject)


def _short(file: Path) -> str:
    return str(file.relative_to(Path.cwd()))
