"""`midturn init`: makes a workspace."""

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
from midturn.models.available import AtHand, providers_at_hand
from midturn.models.registry import KEYS, PREFERRED, Lookup, preferred_here
from midturn.security.private_files import create_private
from midturn.stores.workspace import Workspace

# ----------------------------------------------------------------------------------------------------------------------
# The configuration that `midturn init` writes to begin from: a model that is at hand here, and why it was chosen


class FoundModels(Struct, frozen=True, kw_only=True):
    """Two models, the second one None where there is no other; `why` says what was found, `then` what is still to be done."""

    writes: str
    reviews: str | None
    why: Shown
    then: Shown | None = None
    server: AtHand | None = None


class Starter(Struct, frozen=True):
    """The text of the file, and what is said about it."""

    text: str
    says: Sequence[Shown]


def choose(environment: Mapping[str, str], *, review: bool) -> Starter:
    """Look at what is at hand, and write the configuration for it."""
    choice = _choice(providers_at_hand(Lookup(environment=environment)), environment)
    return Starter("\n".join([*_text(choice), *(_review(choice) if review else [])]) + "\n", [*_says(choice, review=review)])


def advice(environment: Mapping[str, str]) -> Sequence[Shown]:
    """Say how a workspace that is there without a model gets one."""
    choice = found_here(environment)
    if choice is None:
        return [_nothing_chosen()]
    return [
        line("No model is set. One is at hand, {}; to use it, add this to the file:", choice.why),
        line(""),
        *map(_row, _text(choice)),
    ]


def found_here(environment: Mapping[str, str]) -> FoundModels | None:
    """Look for a key, or a local server."""
    return _choice(providers_at_hand(Lookup(environment=environment)), environment)


def _row(text: str) -> Shown:
    return line("{}", text)


def _nothing_chosen() -> Shown:
    names = ", ".join(KEYS[provider][0] for provider in PREFERRED)
    sets = PREFERRED["anthropic"][0]
    return line(
        "No model was chosen: none of {} is set, and no local server answers. Once a key is there, "
        "`midturn config set assistant.model.id {}` chooses one; `midturn demo` needs none.",
        names,
        sets,
    )


def _choice(at_hand: Sequence[AtHand], environment: Mapping[str, str]) -> FoundModels | None:
    """Prefer a provider whose key is set, then a local server."""
    by_name = {found.provider: found for found in at_hand}
    preferred = preferred_here(environment)
    if preferred:
        provider, variable = preferred
        writes, reviews = PREFERRED[provider]
        missing = by_name[provider].missing
        then = line("Its library is not installed yet: {}", missing) if missing else None
        return FoundModels(writes=writes, reviews=reviews, why=line("because {} is set", variable), then=then)
    server = next((found for found in at_hand if found.base_url and found.models), None)
    if server is None:
        return None
    writes, *others = server.models
    reviews = others[0] if others else None
    return FoundModels(writes=writes, reviews=reviews, why=line("because a server answers at {}", server.base_url), server=server)


def _text(choice: FoundModels | None) -> Iterator[str]:
    yield "# `midturn config explain KEY` says what a key means, and who set it."
    yield ""
    yield "[assistant]"
    if choice is None:
        yield f"# model.id = {_quoted(PREFERRED['anthropic'][0])}   # its key is read from ANTHROPIC_API_KEY"
        return
    yield f"model.id = {_quoted(choice.writes)}"
    if choice.server:
        yield ""
        yield f"[providers.llm.{choice.server.provider}]"
        yield 'kind = "openai-compatible"'
        yield f"base_url = {_quoted(choice.server.base_url or '')}"


def _review(choice: FoundModels | None) -> Iterator[str]:
    """Have patches reviewed by another model than the one that writes them."""
    yield ""
    yield "# Another model reviews each change to a file; what it rejects goes to you."
    yield "[conversation.tools.fs_modify_file.questions.apply_changes.target]"
    if choice and choice.reviews:
        yield f"model.id = {_quoted(choice.reviews)}"
    else:
        yield f"# model.id = {_quoted(PREFERRED['anthropic'][1])}   # better another model than the one that writes"
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
        yield line("Changes to files are reviewed by {}.", reviewer or "the same model, until you name another in the file")
    if choice:
        yield line('Try it: midturn query "What is in this directory?"')


def _quoted(text: str) -> str:
    """Write a TOML string."""
    return json.dumps(text)


@click.command
@click.option("--review", is_flag=True, help="Have patches reviewed by a second model.")
def command(*, review: bool) -> ExitStatus:
    """Make this directory a workspace, with a configuration to begin from."""
    file = Path.cwd() / ".midturn" / "config.toml"
    if file.exists():
        return _again(file, review=review)
    starter = choose(environment(), review=review)
    Workspace.make(Path.cwd())
    _write(file, starter)
    tell("Wrote {}.", _short(file))
    for sentence in starter.says:
        tell(sentence)
    return ExitStatus.DONE


def _again(file: Path, *, review: bool) -> ExitStatus:
    """Leave the workspace that is here as it is, but for a model where it has none, and a key is set meanwhile."""
    loaded = loaded_if_right()
    lacks_model = loaded is not None and loaded.settings.assistant.model.id is None
    waits = model_to_be_trusted(loaded) if loaded and lacks_model else None
    choice = found_here(environment()) if lacks_model and not waits else None
    picked = choice if choice and not choice.server else None
    if picked:
        tell("This is a workspace already; its model is {} now, {}.", picked.writes, picked.why)
        set_here(Workspace(file.parents[1]), "assistant.model.id", picked.writes)
    else:
        tell("This is a workspace already; {} was left as it is.", _short(file))
    if review:
        note("To have patches reviewed, add what `midturn init --review` writes into an empty directory, or edit {}.", _short(file))
    for sentence in _about_the_model(waits, picked) if lacks_model else ():
        tell(sentence)
    return ExitStatus.DONE


def _about_the_model(waits: str | None, picked: FoundModels | None) -> Sequence[Shown]:
    """Say what is still to be done until the model answers."""
    if picked:
        return [picked.then] if picked.then else []
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
