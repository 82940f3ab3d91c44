"""The HTTP API: open questions, answers and conversations as JSON, with the same rules as the
page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from midturn import errors
from midturn.events.open_question import OpenQuestion, holds_secret
from midturn.events.types import AnsweredBy
from midturn.question.json_value import Json, pointer_to
from midturn.question.reply import SCOPES
from midturn.stores.answer_service import Receipt
from midturn.stores.log_tail import Part
from midturn.stores.port import first_words, following
from midturn.stores.store import ConversationStore
from midturn.turn.view import no_question
from midturn.web.app_state import AppState
from midturn.web.body import problem, read_object
from midturn.web.closed import (
    closed,
    open_parts,
    read_named,
    recorded,
    rejection_of,
    secret_elsewhere,
)
from midturn.web.openapi import MOST_ON_A_PAGE, WAYS
from midturn.web.request_checks import Visitor

_KEYS = (*WAYS, "reason", "remember", "digest", "about", "scope")
"""The allowed keys of an answer. `about` is the old name of `digest`."""
_FIELD_TYPES = {
    "approve": bool,
    "reply": str,
    "back": bool,
    "cancel": bool,
    "reason": str,
    "digest": str,
    "about": str,
    "remember": bool | str,
    "content": str,
    "arguments": Mapping,
    "pass_to": list,
    "take_back": bool,
    "scope": str,
}
_TYPE_NAMES = {
    bool | str: "true, false or a string",
    bool: "true or false",
    str: "a string",
    Mapping: "an object",
    list: "a list of names",
}


async def questions(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return the open questions, sorted by time.

    With `after` or `limit`, but without `conversation`, return one page, sorted by conversation.
    """
    del visitor
    wanted, after, limit = (
        request.query_params.get(name) for name in ("conversation", "after", "limit")
    )
    most = _page_limit(limit)
    if wanted is None and (after is not None or limit is not None):
        return JSONResponse(
            [one.to_json() for one in await site.board.port.pending(after=after, limit=most)]
        )
    asked = (
        await site.board.port.pending() if wanted is None else await site.board.waiting_in(wanted)
    )
    found = sorted(asked, key=lambda question: question.asked_at)
    return JSONResponse([one.to_json() for one in following(found, after)[:most]])


def _page_limit(limit: str | None) -> int | None:
    if limit is None or (re.fullmatch("[0-9]{1,9}", limit) and 1 <= int(limit) <= MOST_ON_A_PAGE):
        return None if limit is None else int(limit)
    raise HTTPException(400, f"`limit` must be a number of questions from 1 to {MOST_ON_A_PAGE}.")


async def question(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return one open question."""
    del visitor
    found = await site.board.find(request.path_params["id"])
    return (
        await not_open_response(request.path_params["id"], site)
        if found is None
        else JSONResponse(found.to_json())
    )


async def answer(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Answer a question. The body must contain exactly one way to answer."""
    body = await read_object(request)
    problems = _problems(body)
    if problems:
        return invalid_answer(problems)
    key = request.headers.get("idempotency-key", "")
    if len(key) > MAX_KEY_CHARS:
        raise HTTPException(
            400, f"The Idempotency-Key is too long. The limit is {MAX_KEY_CHARS} characters."
        )
    if not key:
        return await _answer(request, body, visitor, site)
    name = visitor.name or "", str(request.path_params["id"]), key
    return await site.repeats.once(name, body, lambda: _answer(request, body, visitor, site))


async def _answer(
    request: Request, body: Mapping[str, Json], visitor: Visitor, site: AppState
) -> Response:
    found = await site.board.find(request.path_params["id"])
    if found is None:
        return await not_open_response(request.path_params["id"], site)
    if "value" in body and holds_secret(found):
        why = (
            await secret_elsewhere(request, site, found)
            or "Enter the secret on the page of the question. Programs cannot submit secrets."
        )
        return problem(409, "secret_elsewhere", why)
    return await _answered(found, body, visitor, site)


async def _answered(
    found: OpenQuestion, body: Mapping[str, Json], visitor: Visitor, site: AppState
) -> Response:
    how: dict[str, Any] = {key: body[key] for key in _KEYS if key in body and key != "about"}
    if given := body.get("digest", body.get("about")):
        how["digest"] = found.whole_digest(str(given))
    try:
        receipt = await _submit(found, how, visitor, site)
    except errors.DigestMismatch as error:
        return await _digest_mismatch(found, error, site)
    except (errors.AnswerError, errors.QuestionError) as error:
        return invalid_answer(
            [errors.Problem(_pointer(body) + one.pointer, one.message) for one in error.problems]
        )
    except (errors.AlreadyAnswered, errors.NotOpen) as closed_meanwhile:
        await site.board.look_again()
        return await closed_response(found.id, closed_meanwhile, site)
    except (errors.StoreError, errors.PersonNeeded, errors.NotAllowed) as error:
        why = rejection_of(error)
        return problem(why.status, why.error, why.message)
    await site.board.look_again()
    if site.resumer:
        site.resumer.nudge()
    return JSONResponse({**receipt.to_json(), "id": found.id})


async def _digest_mismatch(
    found: OpenQuestion, error: errors.DigestMismatch, site: AppState
) -> Response:
    """Reject an approval or an edit whose digest does not match the current question. Return the
    current question.
    """
    now = await site.board.find(found.id)
    if now is None:
        return await not_open_response(found.id, site)
    message = "Nothing was recorded. Review the current question and answer with its digest."
    return problem(
        409, "digest_mismatch", message, digest=now.digest or error.digest, question=now.to_json()
    )


MAX_KEY_CHARS = 255


async def _submit(
    found: OpenQuestion, how: dict[str, Any], visitor: Visitor, site: AppState
) -> Receipt:
    port, user = site.board.port, visitor.name
    if "pass_to" in how:
        return await port.store.reassign(
            found.id, how["pass_to"], reason=how.get("reason"), user=user, via="api"
        )
    if "take_back" in how:
        return await port.store.withdraw_vote(found.id, user=user, via="api")
    return await port.answer(found.id, **how, user=user, via="api")


async def conversations(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return a page of conversations, newest first."""
    del visitor
    shown = await site.board.port.newest(
        CONVERSATIONS_PER_PAGE, request.query_params.get("before") or ""
    )
    titles = await site.board.titles(shown)
    return JSONResponse([{"id": id, "title": titles[id]} for id in shown])  # noqa: A001  as in the API


async def conversation(request: Request, visitor: Visitor, site: AppState) -> Response:
    """Return one conversation with its events."""
    del visitor
    head, parts = await read_named(request, site, _open_conversation)
    return StreamingResponse(_encode_conversation(head, parts), media_type="application/json")


def _open_conversation(store: ConversationStore, id: str) -> tuple[dict[str, Json], Iterator[Part]]:
    parts = open_parts(store, id)
    first = next(parts)
    title = first.metadata.title or store.run_sync("title", first_words(store.port, id))
    return {"id": id, "title": title, "labels": first.metadata.labels}, chain([first], parts)


def _encode_conversation(head: dict[str, Json], parts: Iterator[Part]) -> Iterator[bytes]:
    """Yield the JSON of a conversation in parts. The calling thread reads the events."""
    yield msgspec.json.encode(head)[:-1] + b',"events":['
    comma = b""
    for part in parts:
        if events := b",".join(map(_ENCODER.encode, part.decode())):
            yield comma + events
            comma = b","
    yield b"]}"


async def not_open_response(id: str, site: AppState) -> Response:
    """Return the response for a question that is not open."""
    found = await closed(site.board.port, id)
    if found is None:
        return problem(404, "not_found", str(no_question(id)))
    return await closed_response(id, found.why, site)


async def closed_response(
    id: str, error: errors.AlreadyAnswered | errors.NotOpen, site: AppState
) -> Response:
    """Return the response for an answer to a closed question.

    The answer that closed the question may not be recorded yet.
    """
    if isinstance(error, errors.DeadlinePassed):
        return problem(410, "deadline_passed", str(error), deadline=error.deadline)
    if isinstance(error, errors.NotOpen):
        return problem(410, "closed", str(error))
    found = await recorded(site.board.port, id)
    by = found.answered_by if found else None
    answered_by = msgspec.to_builtins(by or AnsweredBy("user", user=error.by or None))
    return problem(409, "already_answered", str(error), answered_by=answered_by)


def invalid_answer(problems: Sequence[errors.Problem]) -> Response:
    """Return the response for an invalid answer."""
    listed = [{"pointer": one.pointer, "message": one.message} for one in problems]
    return problem(
        422,
        "does_not_fit",
        "The answer was not recorded. The question is still open.",
        problems=listed,
    )


def _problems(body: Mapping[str, Json]) -> list[errors.Problem]:
    """Return the errors in a request body that can be found without the question."""
    found = [
        errors.Problem(pointer_to("", key), f"unknown key. Allowed keys: {', '.join(_KEYS)}.")
        for key in body
        if key not in _KEYS
    ]
    given = [key for key in WAYS if key in body]
    if len(given) != 1:
        found.append(
            errors.Problem(
                "",
                f"must have exactly one of {', '.join(WAYS)}, but has"
                f" {' and '.join(given) or 'none'}.",
            )
        )
    if "digest" in body and "about" in body:
        found.append(
            errors.Problem("/about", "is the old name of `digest`. Send only one of the two.")
        )
    for key, shape in _FIELD_TYPES.items():
        if key in body and not isinstance(body[key], shape):
            found.append(errors.Problem(f"/{key}", f"must be {_TYPE_NAMES[shape]}."))
    if isinstance(scope := body.get("scope"), str) and scope not in SCOPES:
        found.append(errors.Problem("/scope", f"must be one of {', '.join(SCOPES)}."))
    found += [
        errors.Problem(f"/{key}", "must be true. Omit the key otherwise.")
        for key in ("back", "cancel", "take_back")
        if body.get(key) is False
    ]
    return found


def _pointer(body: Mapping[str, Json]) -> str:
    """Return the JSON Pointer of the answer in the body."""
    return f"/{next(key for key in WAYS if key in body)}"


CONVERSATIONS_PER_PAGE = 100
_ENCODER = msgspec.json.Encoder()
