"""A web service. Turns wait in the store, so any worker can take an answer and resume the turn.

$ uvicorn --app-dir examples/programs --workers 2 service:app

POST /turns {"text": "Ship it."}       the turn's status, with its open questions
GET /questions                         all open questions
POST /answers/<id> {"value": true}     403 not permitted, 409 already answered (by whom), 422 what
is valid
"""

from __future__ import annotations

import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import midturn as mt


@mt.tool
async def deploy(env: str) -> str:
    """Deploy the service."""
    if not await mt.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    return (
        f"{env} is live in"
        f" {await mt.ask(mt.Question.select('region', 'Which region?', ['eu-1', 'us-2']))}."
    )


MODEL = mt.ScriptedModel(
    [{"calls": [{"name": "deploy", "arguments": {"env": "staging"}}]}, {"text": "Done."}]
)
agent = mt.Agent(
    MODEL, tools=[deploy], store=mt.open_store(os.environ.get("CONVERSATIONS", "var/conversations"))
)


async def begin(request: Request) -> JSONResponse:
    """Run a turn until it completes or is suspended."""
    return JSONResponse((await agent.run((await request.json())["text"])).to_json())


async def questions(_: Request) -> JSONResponse:
    """List the open questions."""
    return JSONResponse([question.to_json() for question in await agent.store.pending()])


async def answer(request: Request) -> JSONResponse:
    """Record an answer and resume the turn, unless another worker does."""
    try:
        receipt = await agent.store.answer(
            request.path_params["id"],
            (await request.json())["value"],
            user=request.headers.get("x-user"),
        )
    except (mt.AnswerError, mt.NotAllowed) as error:
        return JSONResponse(error.to_json(), 403 if isinstance(error, mt.NotAllowed) else 422)
    except (mt.AlreadyAnswered, mt.NotOpen) as error:
        return JSONResponse(error.to_json(), 409)
    try:
        return JSONResponse(
            receipt.to_json()
            if receipt.held
            else (await agent.resume(receipt.conversation)).to_json()
        )
    except (mt.StoreLocked, mt.NotOpen):  # another worker has resumed it
        return JSONResponse(receipt.to_json())


ROUTES = [
    Route("/turns", begin, methods=["POST"]),
    Route("/questions", questions),
    Route("/answers/{id}", answer, methods=["POST"]),
]
app = Starlette(routes=ROUTES)
