from __future__ import annotations

import json
import logging

import pytest

from midturn.errors import ModelError
from midturn.models.scripted import ScriptedModel
from midturn.models.wrapper import LoggedModel
from support.conversations import asked_events, main_request
from support.exchanges import ask


def test_requests_and_answers_are_written_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="midturn.models"):
        events = ask(LoggedModel(ScriptedModel([{"text": "I will"}])), main_request(asked_events()))

    assert len(events) == 2
    request, response = (record.getMessage() for record in caplog.records)
    assert json.loads(request.removeprefix("request "))["model"] == "scripted"
    assert "I will" in response.removeprefix("response ")


def test_an_error_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="midturn.models"), pytest.raises(ModelError):
        ask(LoggedModel(ScriptedModel([{"error": {"message": "overloaded"}}])))

    assert caplog.records[-1].getMessage() == 'failure {"status": null, "message": "overloaded"}'


def test_a_wrapper_forwards_the_attributes_of_its_model() -> None:
    import asyncio

    model = LoggedModel(ScriptedModel())

    async def everything() -> int | None:
        await model.prepare()
        window = await model.context_window()
        await model.aclose()
        return window

    assert model.name == "scripted"
    assert asyncio.run(everything()) is None
