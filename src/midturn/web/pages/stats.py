"""Pictures of who answers what, and how long it takes; each with its numbers."""

from __future__ import annotations

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from midturn.web.gate import Visitor
from midturn.web.library import NEWEST
from midturn.web.pages.waiting import frame
from midturn.web.site import Site
from midturn.web.sums import Sums, sums
from midturn.web.templating import page

_WIDTH, _HEIGHT = 600, 120


async def stats(request: Request, visitor: Visitor, site: Site) -> Response:
    """Show the sums of the newest conversations."""
    await site.board.fresh()
    every = await site.library.newest()
    added = sums(fact for one in every for fact in one.asked)
    values = {"sums": added, "curve": _curve(added), "conversations": len(every), "is_all": len(every) < NEWEST}
    return page(request, "stats.html", {**frame(site, visitor, "Stats"), **values})


def _curve(added: Sums) -> Markup:
    """Draw how many were open, day by day, as steps: what was open stays open until the next day's count."""
    highest = max((count for _, count in added.days), default=0) or 1
    step = _WIDTH / len(added.days)
    points = [f"0,{_HEIGHT}"]
    for place, (_, count) in enumerate(added.days):
        height = round(_HEIGHT - count / highest * (_HEIGHT - 4), 1)
        points += [f"{place * step:.1f},{height}", f"{(place + 1) * step:.1f},{height}"]
    points.append(f"{_WIDTH},{_HEIGHT}")
    return Markup(
        '<svg class="curve" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true"><polygon points="{}"/></svg>'
    ).format(_WIDTH, _HEIGHT, " ".join(points))
