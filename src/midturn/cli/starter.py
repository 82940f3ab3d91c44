"""The configuration that `midturn init` writes to begin from: a model that is at hand here, and why it was chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from midturn.cli.shown import Shown, line
from midturn.models.at_hand import AtHand, providers_at_hand
from midturn.models.registry import KEYS, PREFERRED, Lookup, preferred_here


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
    choice = _choice(providers_at_hand(Lookup(environment=environment)), environment)
    if choice is None:
        return [_nothing_chosen()]
    if choice.server:
        return [
            line("No model is set. One is at hand, {}; to use it, add this to the file:", choice.why),
            line(""),
            *map(_row, _text(choice)),
        ]
    sets = line("No model is set. `midturn config set assistant.model.id {}` sets one, {}.", choice.writes, choice.why)
    return [sets, *([choice.then] if choice.then else [])]


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
