"""The inbox next to a Django application: `uvicorn with_django:application`, then
http://127.0.0.1:8000/login?name=ada and /inbox/.

Django signs a cookie with the user's name; the inbox verifies it with Django.
"""

# Django has no type annotations:
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
from __future__ import annotations

from deploying import build_agent
from django.conf import settings
from django.core import signing
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import path
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from midturn.web import inbox

settings.configure(
    SECRET_KEY="a real one is secret",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1", "localhost", "testserver"],
)
agent = build_agent()


def login(request: HttpRequest) -> HttpResponse:
    """Begin a session; a real application asks for a password."""
    response = HttpResponseRedirect("/inbox/")
    response.set_cookie(
        "who", signing.dumps(request.GET.get("name", "")), httponly=True, samesite="Strict"
    )
    return response


async def begin(request: HttpRequest) -> HttpResponse:
    """Start a turn of the agent. Its questions are on the page, where the turn continues."""
    result = await agent.run(
        str(request.GET.get("text", "")), author=_name(str(request.COOKIES.get("who", "")))
    )
    return JsonResponse({"conversation": result.conversation, "status": result.status})


def who(request: Request) -> str | None:
    """Return the signed-in user, or None."""
    return _name(request.cookies.get("who", ""))


def _name(signed: str) -> str | None:
    try:
        return str(signing.loads(signed, max_age=12 * 60 * 60)) or None
    except signing.BadSignature:
        return None


urlpatterns = [path("login", login), path("tasks", begin)]
application = Starlette(
    routes=[Mount("/inbox", inbox(agent, user=who)), Mount("/", get_asgi_application())]
)
