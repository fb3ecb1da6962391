"""Who may talk to the page: only the person who holds the address, from the page itself.

Every request passes here first. It must name this very host and port (a name that somebody's
server lets point to 127.0.0.1 is refused), carry the cookie that only the address with the token
gives, and, if it changes something, come from the page itself. Cookies know no ports, so the cookie
is bound to a secret path: a server of somebody else on another port of this machine never gets it.
"""

import contextlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Of every page of the studio: nothing inline, and nothing from anywhere else."""
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'self'; sandbox allow-popups"
)
"""Of the report, which is shown within a page: no script at all."""

COOKIE = "noisette_studio"
_LARGEST = 8 << 20  # bytes of a form
_HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer: a form would then be posted with "Origin: null".
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Keys:
    """The secrets of one studio: of its address, its cookie, its forms and its paths."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    base: str = field(default_factory=lambda: "/" + secrets.token_hex(8), repr=False)


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how far."""
    return hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """The outermost layer of the application: lets in, or answers with one sentence.

    `host` is the only ``Host`` that is answered, such as ``127.0.0.1:8000``.
    """

    def __init__(self, app: Any, keys: Keys, host: str) -> None:
        self._app, self._keys, self._host = app, keys, host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # there are no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        once = ("host", "origin", "content-length", "sec-fetch-site")
        doubled = any(len(headers.getlist(name)) > 1 for name in once)
        refusal = "that request is not clear." if doubled else self._refusal(scope, headers)
        if refusal:
            answer: Any = PlainTextResponse(f"noisette: {refusal}\n", 403, _HEADERS)
        else:
            answer = self._welcome() if scope["path"] == "/" else self._inside
        await answer(scope, receive, send)

    def _welcome(self) -> Response:
        """Give the cookie, and lead on from this page.

        Not by a redirect: to a person who came by a link elsewhere, that would be one more step of
        another site, for which a strict cookie is not sent.
        """
        place = f"{self._keys.base}/"
        cookie = f"{COOKIE}={self._keys.cookie}; HttpOnly; SameSite=Strict; Path={place}"
        body = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>noisette</title>'
            f'<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url={place}">'
            f'<p><a href="{place}">Open the studio</a></p></html>'
        )
        return HTMLResponse(body, headers=_HEADERS | {"set-cookie": cookie})

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> str:
        """Return why a request is not answered; nothing if it is."""
        reads, length = scope["method"] in ("GET", "HEAD"), headers.get("content-length", "")
        if scope["path"] == "/":
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            knows = reads and same(query.get("token", [""])[0], self._keys.token)
        else:
            cookie = None
            with contextlib.suppress(CookieError):
                cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
            inside = scope["path"].startswith(f"{self._keys.base}/")
            knows = inside and cookie is not None and same(cookie.value, self._keys.cookie)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
        elsewhere = origin != f"http://{self._host}" or site != "same-origin"
        refusals = (
            (headers.get("host") != self._host, "this page answers at its own address only."),
            (not knows, "open the address that `noisette studio` printed; it has a key in it."),
            (not reads and scope["method"] != "POST", "that is not a request of this page."),
            (not reads and elsewhere, "a form is taken from this page only."),
            (not reads and (not length.isdecimal() or int(length) > _LARGEST),
             "the form is too large."),
        )  # fmt: skip
        return next((sentence for wrong, sentence in refusals if wrong), "")

    async def _inside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on, and add the headers to the answer."""

        async def headed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                known = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    known.setdefault(name, value)
            await send(message)

        # A fault was answered within; a server would log it, and its text may quote a cell.
        with contextlib.suppress(Exception):
            await self._app(scope, receive, headed)
