"""The live page: a server for this machine alone that hands a text to `explain` and its look to the page.

Whoever knows the token in the address may ask, nobody else: not another user of the machine, and no page of
another site, by whatever name it calls this machine.
"""

import json
import secrets
import sys
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError, SettingError
from clearhead.settings import Explaining

if TYPE_CHECKING:
    from clearhead.infer.model import Model

HERE = "127.0.0.1"
MOST = 2**20  # bytes of a request
PATIENCE = 30  # seconds that a request may take to arrive
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class Server(ThreadingHTTPServer):
    """One model, its page, and a token; each request has a thread of its own, and so its own edits."""

    def __init__(self, model: "Model", *, port: int, page: str, settings: Explaining):
        self.model, self.page, self.settings = model, page, settings
        self.token = secrets.token_urlsafe(24)
        super().__init__((HERE, port), Handler)

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return f"http://{HERE}:{self.server_address[1]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """GET gives the page, POST to `look` a look."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """The page."""
        if self.allowed("/"):
            self.answer(HTTPStatus.OK, self.server.page.encode(), kind="text/html; charset=utf-8")

    def do_POST(self) -> None:
        """A look at the text of a JSON object: `text`, and where they are given `pair` and `off`, the heads
        that are switched off."""
        if not self.allowed("/look"):
            return
        if self.headers.get_content_type() != "application/json":
            self.refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, as application/json")
            return
        size = self.headers.get("Content-Length", "")
        if not (size.isascii() and size.isdigit()):
            self.refuse(HTTPStatus.LENGTH_REQUIRED, "say how long the request is")
            return
        if int(size) > MOST:
            self.refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST:,} bytes are taken")
            return
        try:
            found = looked(self.server.model, self.rfile.read(int(size)), settings=self.server.settings)
        except ClearheadError as error:
            self.refuse(HTTPStatus.BAD_REQUEST, str(error), close=False)
            return
        except Exception as error:  # ours; the page says so, and the terminal shows where
            self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"a fault of the server: {error!r}")
            raise
        self.answer(HTTPStatus.OK, json.dumps(found, allow_nan=False).encode(), kind="application/json")

    def do_other(self) -> None:
        """Nothing else is done, and only whoever may ask is told so."""
        if self.allowed("/"):
            self.refuse(HTTPStatus.METHOD_NOT_ALLOWED, "GET gives the page, POST a look")

    do_HEAD = do_OPTIONS = do_PUT = do_PATCH = do_DELETE = do_other

    def allowed(self, place: str) -> bool:
        """Whether this is a request by the page's own address; 403 otherwise. The name that the browser
        called is checked because another site's name can be made to lead here."""
        server, port = self.server, self.server.server_address[1]
        names = [f"{name}:{port}" for name in (HERE, "localhost")]
        origin = self.headers.get("Origin")
        known = self.headers.get("Host") in names
        known = known and (origin is None or origin in [f"http://{name}" for name in names])
        path, token = self.path.split("?")[0], f"/{server.token}"
        begins = secrets.compare_digest(path[: len(token)].encode("utf-8", "replace"), token.encode())
        if not known or not begins:
            self.refuse(HTTPStatus.FORBIDDEN, "the address is not whole; copy it from the terminal")
        elif path != token + place:
            self.refuse(HTTPStatus.NOT_FOUND, "nothing is here")
        return known and begins and path == token + place

    def refuse(self, status: HTTPStatus, why: str, *, close: bool = True) -> None:
        """Say no; where the request has not been read whole, the connection ends with it."""
        self.close_connection = self.close_connection or close
        self.answer(status, json.dumps({"error": why}).encode(), kind="application/json")

    def answer(self, status: HTTPStatus, body: bytes, *, kind: str) -> None:
        """Send an answer with the rules that hold for all of them."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": f"{len(body)}", **HEADERS}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """What the server calls itself."""
        return "clearhead"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is told of a request: the texts are the user's."""


def looked(model: "Model", request: bytes, *, settings: Explaining) -> dict[str, Any]:
    """A look at what a request asks for. Raises `SettingError` for one that is not understood."""
    from clearhead.explain.trial import tried

    try:
        asked = json.loads(request)
    except (ValueError, RecursionError) as error:
        raise SettingError("the request is not valid JSON") from error
    text = asked.get("text") if isinstance(asked, dict) else None
    pair, off = (asked.get("pair"), asked.get("off") or []) if isinstance(asked, dict) else (None, [])
    if not isinstance(text, str) or not isinstance(pair, str | None) or not isinstance(off, list):
        raise SettingError('the request must be {"text": TEXT, "pair": TEXT or null, "off": list of heads}')
    return tried(
        model,
        text if pair is None else (text, pair),
        off=off,
        layers=settings.layers,
        heads=settings.heads,
        candidates=settings.candidates,
    )


def serve(model: "Model", *, texts: Sequence[str], settings: Explaining) -> int:
    """Serve the live page until Ctrl-C, which is how it ends."""
    from clearhead.app import show

    with opened(model, texts=texts, settings=settings) as server:
        try:
            if show.plain(settings.json):
                show.emit({"url": server.address})
                sys.stdout.flush()
            else:
                show.out.print(server.address, soft_wrap=True)
            show.say(f"{model.name}: open this address in a browser on this machine; Ctrl-C ends")
            server.serve_forever()
        except KeyboardInterrupt:
            show.say("stopped")
    return 0


def opened(model: "Model", *, texts: Sequence[str], settings: Explaining) -> Server:
    """A server that listens. Raises `SettingError` for a port that cannot be had."""
    from clearhead.explain.page import live_page

    port = settings.port or 0
    try:
        return Server(model, port=port, page=live_page(model, texts), settings=settings)
    except OSError as error:
        raise SettingError(
            f"--port {port} cannot be had ({error.strerror}); give another, or leave it out for a free one"
        ) from error
