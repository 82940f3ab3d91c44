"""Lists a corpus store and answers and resumes everything in it, with the released code and with
the current code.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

import midturn as mt
from corpus import agents
from midturn.question.text import sha256
from midturn.stores.export import JpFiles, export_jp, export_jsonl, export_markdown

PEOPLE = ("ana", "bo", "carl")
TOKEN = "hunter2-in-no-file"
FORM = {
    "name": "5.0",
    "region": {"other": "moon"},
    "parts": ["web"],
    "canary": True,
    "share": "1 %",
    "plan": {"steps": 2},
}
ANSWERS: dict[str, Any] = {
    "confirm": True,
    "answer": "green",
    "second": "two",
    "number": 4,
    "fine": True,
    "soon": True,
    "sure": True,
}
LATER_IN_JP = ("author",)
"""Keys of exported events that later versions added."""
KEPT = {
    "inquiry_response": ("outcome", "answer", "answered_by", "reason"),
    "approval": ("kind", "state", "reason", "answered_by", "arguments", "content"),
    "tool_call_response": ("content", "is_error"),
    "chat_response": ("message",),
    "turn_end": ("status", "error"),
    "vote": ("answer", "answered_by"),
    "reassigned": ("to", "answered_by"),
}
"""Compared keys of the events that answering and resuming add."""


async def shown(store: mt.ConversationStore) -> dict[str, Any]:
    """Return everything that can be listed, read and exported.

    Read first, because listing records expired deadlines.
    """
    ids = await store.ids()
    conversations = {id: await _conversation(store, id) for id in ids}
    return plain(
        {
            "conversations": conversations,
            "ids": ids,
            "ready": sorted(await store.ready()),
            # files list inner conversations, databases do not
            "open turns": sorted(await store.open_turns() - await _nested(store)),
            "pending": [question.to_json() for question in await store.pending()],
            "beside": {
                name: content.decode()
                for name, content in (await store.port.beside.kept("")).items()
            },
        }
    )


async def _nested(store: mt.ConversationStore) -> set[str]:
    """Return the conversations of agents inside tools."""
    children = [
        event
        for id in await store.ids()
        for event in (await store.read(id)).events
        if isinstance(event, mt.events.Child)
    ]
    return {child.conversation for child in children}


async def _conversation(store: mt.ConversationStore, id: str) -> dict[str, Any]:
    found = await store.read(id)
    lines = await store.port.lines(id)
    jp = export_jp(lines, found.metadata.to_json())
    read = plain([event.to_json() for event in found.events])
    return {
        "title": found.metadata.title,
        "created_at": found.metadata.created_at,
        "problems": [str(problem) for problem in found.problems],
        "turns": [turn.open for turn in found.turns],
        "read as written": [
            event == msgspec.json.decode(line) for event, line in zip(read, lines, strict=True)
        ].count(True)
        == len(lines),
        "jsonl": sha256(b"".join(export_jsonl(lines))),
        "markdown": "".join(export_markdown(found.turns, found.metadata.title)),
        "jp": _jp(jp),
    }


def _jp(files: JpFiles) -> str:
    """Return a fingerprint of a `jp` export without the keys that later versions added."""
    events = msgspec.json.decode(files.events, type=list[dict[str, Any]])
    kept = [
        {key: value for key, value in event.items() if key not in LATER_IN_JP} for event in events
    ]
    return sha256(msgspec.json.encode([kept, msgspec.json.decode(files.metadata)]))


async def answered(store: mt.ConversationStore) -> dict[str, Any]:
    """Answer every open question, resume every ready turn, and return the recorded events.

    This changes the store.
    """
    before = {id: len((await store.read(id)).events) for id in await store.ids()}
    receipts: dict[str, list[str]] = {}
    results: dict[str, list[str]] = {}
    for _ in range(8):
        questions = [question for question in await store.pending() if question.id not in receipts]
        for question in questions:
            receipts[question.id] = await _answered(store, question)
        ready = sorted(set(await store.ready()) - results.keys())
        for conversation in ready:
            results.setdefault(conversation, []).append(await _resumed(store, conversation))
        if not questions and not ready:
            break
    # left by a dead process, or turns of another program
    for conversation in sorted(await store.open_turns()):
        results.setdefault(conversation, []).append(await _resumed(store, conversation))
    recorded = {
        id: _new((await store.read(id)).events, before.get(id, 0)) for id in await store.ids()
    }
    return plain(
        {
            "receipts": receipts,
            "results": results,
            "recorded": recorded,
            "left": [question.id for question in await store.pending()],
        }
    )


async def _answered(store: mt.ConversationStore, question: mt.OpenQuestion) -> list[str]:
    """Answer a question as often as it needs votes; return the result of each answer."""
    if question.question.answer_type.__class__.__name__ == "SecretType":
        result = await agents.agent(store).resume(
            question.conversation, secrets={question.id: TOKEN}, user="ana"
        )
        return [result.status]
    told: list[str] = []
    for user in PEOPLE:
        (now,) = [
            found for found in await store.pending(question.conversation) if found.id == question.id
        ] or [None]
        if now is None:
            break
        try:
            receipt = await store.answer(now.id, user=user, **_answer(now), **_seen(store, now))
            told.append(f"{user}: {receipt.votes or 'taken'}")
        except mt.MidturnError as error:
            told.append(f"{user}: {type(error).__name__}")
    return told


def _answer(question: mt.OpenQuestion) -> dict[str, Any]:
    if question.kind != "tool":
        return {"approve": True}
    if question.form is None:
        return {"value": ANSWERS[question.question_id]}
    names = [str(asked["id"]) for asked in question.form.questions]
    return {"value": {name: FORM[name] for name in names[names.index(question.question_id) :]}}


def _seen(store: mt.ConversationStore, question: mt.OpenQuestion) -> dict[str, Any]:
    """Return the argument that names what the user saw, in the spelling of this version."""
    name = "digest" if "digest" in inspect.signature(store.answer).parameters else "about"
    return {name: getattr(question, name)}


async def _resumed(store: mt.ConversationStore, conversation: str) -> str:
    try:
        result = await agents.agent(store).resume(conversation)
    except mt.MidturnError as error:
        return type(error).__name__
    return f"{result.status}: {result.text or result.error or ''}"


def _new(events: Sequence[mt.events.Event], before: int) -> list[dict[str, Any]]:
    added: list[dict[str, Any]] = [plain(event.to_json()) for event in events[before:]]
    return [
        {"type": event["type"], **{key: event[key] for key in KEPT[event["type"]] if key in event}}
        for event in added
        if event["type"] in KEPT
    ]


def plain(value: Any) -> Any:
    """Return the value after a round trip through JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))
