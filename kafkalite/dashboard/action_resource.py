"""``/actions`` over HTTP: the forms of the page, the command line of each, and the change itself.

Answers to: nothing in Kafka. Reactor shell (``twisted.web``).

Three things must come together for a change: the permission of the operator who started the dashboard, an ``Origin``
that is the page's own, and the token of this process, which is written into the page and nowhere else. A page of
another site can read no answer of this one, so that it cannot know the token.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from kafkalite.common.tasks import spawn
from kafkalite.dashboard.actions import ActionCommand, ActionError, ToolAccess, command_of, offered

log = logging.getLogger(__name__)

TOKEN_HEADER: Final = "X-Kafkalite-Token"
READ_ONLY: Final = "This dashboard changes nothing: start it with --allow-changes."
MOST_AT_ONCE: Final = 4
"""Commands that may run at a time."""
MOST_BYTES: Final = 16_384
"""Size of a request."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended: its exit code, and what it printed."""

    code: int
    output: str


Run = Callable[[Sequence[str]], Awaitable[Outcome]]
"""Runs ``kafkalite`` with these words."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The permission to change the cluster. ``bootstrap`` gives the addresses of the live brokers, by commas."""

    token: str
    access: ToolAccess
    bootstrap: Callable[[], str]
    run: Run


class ActionResource(Resource):
    """GET gives the forms. POST gives the command line of a form, or its faults; with ``"run": true`` runs it."""

    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, changes: Changes | None) -> None:
        super().__init__()
        self._changes = changes
        self._running = 0

    def render_GET(self, request: Request) -> bytes:  # noqa: N802 - Twisted's name
        """The forms, none without permission, and why they are missing."""
        if self._changes is None:
            return _json(request, 200, {"actions": [], "why": READ_ONLY})
        return _json(request, 200, {"actions": offered(self._changes.access), "why": ""})

    def render_POST(self, request: Request) -> bytes | int:  # noqa: N802 - Twisted's name
        """Refuse with 403 what may not change the cluster, with 400 the run of what is no action."""
        changes = self._changes
        if changes is None:
            return _refuse(request, READ_ONLY)
        # Whether the Origin is the right one was checked before; here it must not be missing.
        if request.getHeader("origin") is None:
            return _refuse(request, "A change needs the header Origin, as browsers send it.")
        token = request.getHeader(TOKEN_HEADER) or ""
        if not hmac.compare_digest(token.encode("utf-8", "replace"), changes.token.encode()):
            return _refuse(request, "The token is not that of this dashboard's page: load the page again.")
        try:
            body = json.loads(b"" if request.content is None else request.content.read())
        except (ValueError, RecursionError):
            return _json(request, 400, {"error": f"The request is no JSON of at most {MOST_BYTES} bytes."})
        is_run = isinstance(body, dict) and body.get("run") is True
        try:
            command = command_of(body, changes.access, changes.bootstrap())
        except ActionError as error:
            # A form that is being filled in is no failure.
            return _json(request, 400 if is_run else 200, {"error": str(error)})
        if not is_run:
            return _json(request, 200, {"command": command.shown})
        if self._running >= MOST_AT_ONCE:
            return _json(request, 503, {"error": f"{MOST_AT_ONCE} changes are running: wait for their end."})
        self._running += 1
        log.warning("the page runs: %s", command.shown)
        spawn(self._carry_out(changes, command, request), "an action of the page")
        return NOT_DONE_YET

    async def _carry_out(self, changes: Changes, command: ActionCommand, request: Request) -> None:
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        try:
            outcome = await changes.run(command.words)
        except OSError as error:
            outcome = Outcome(-1, f"the command did not run: {error}")
        finally:
            self._running -= 1
        if not gone:
            shown = {"command": command.shown, "code": outcome.code, "output": outcome.output}
            request.write(_json(request, 200, shown))
            request.finish()


def _json(request: Request, code: int, value: object) -> bytes:
    request.setResponseCode(code)
    body = json.dumps(value).encode()
    request.setHeader("Content-Type", "application/json")
    request.setHeader("Content-Length", str(len(body)))
    return body


def _refuse(request: Request, why: str) -> bytes:
    log.warning("a change from %s was refused: %s", request.getClientAddress().host, why)
    return _json(request, 403, {"error": why})
