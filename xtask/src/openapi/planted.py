"""A proxy that plants faults in the answers of a gateway, to see whether the checks find them.

    planted.py URL

The list of runs has another name for its entries than the document says, and refusals of a method don't say which ones
there are.

It prints its own URL, and serves until it is ended.
"""

import http.server
import json
import sys
import urllib.error
import urllib.request
from email.message import Message

(TARGET,) = sys.argv[1:]


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and plants the faults."""

    protocol_version = "HTTP/1.1"

    def serve(self) -> None:
        """Answers one request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, told, text = self.ask(body)
        if self.command == "GET" and self.path.partition("?")[0] == "/v1/runs" and status == 200:
            page = json.loads(text)
            page["entries"] = page.pop("runs")
            text = json.dumps(page).encode()
        if status == 405:
            del told["Allow"]
        self.answer(status, told, text)

    def ask(self, body: bytes) -> tuple[int, Message, bytes]:
        """Asks the gateway. Gives the status, the headers and the body of its answer."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        headers.pop("Content-Length", None)
        request = urllib.request.Request(TARGET + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do_TRACE = serve

    def answer(self, status: int, headers: Message, text: bytes) -> None:
        """Sends an answer."""
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
