"""Sandboxes at a gateway, which is a fake one here."""

import asyncio
import functools
import http.server
import logging
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridge_log import Log
from fake_gateway import KEY, FakeGateway
from helpers import finished, on_a_loop, program, until
from over_http import of_the_embedded_fleet
from transport_contract import HELLO, Inbox, TransportContract

from thermae import AsyncSandbox, Sandbox, _gateway_transport, errors, tool
from thermae._gateway import Gateway
from thermae._gateway_transport import GatewayTransport
from thermae._transport import Transport


@pytest.fixture(autouse=True)
def no_other_gateway(bridge: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THERMAE_URL", "THERMAE_API_KEY", "FAKE_EMBEDDED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    yield gateway
    gateway.stop()


class TestGatewayTransport(TransportContract):
    @pytest.fixture(autouse=True)
    def with_a_gateway(self, gateway: FakeGateway) -> None:
        self.gateway = gateway

    async def transport(self) -> Transport:
        return await GatewayTransport.start(Gateway(self.gateway.url, KEY))

    def bridge_dies(self, transport: Transport) -> None:
        self.gateway.bridges[-1].kill()
        self.gateway.bridges[-1].wait()


@on_a_loop
async def test_a_connection_that_is_cut_off_is_told_as_broken() -> None:
    gateway = FakeGateway()
    transport = await GatewayTransport.start(Gateway(gateway.url, KEY))
    inbox = Inbox(transport)
    await transport.send(HELLO)
    assert await inbox.receive() is not None
    gateway.die()
    with pytest.raises(OSError, match="gone"):
        await inbox.receive()
    await transport.close()
    await asyncio.to_thread(gateway.stop)


@tool
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


def test_programs_run_and_tools_are_called_in_this_process(gateway: FakeGateway) -> None:
    with Sandbox(gateway.url, api_key=KEY, tools=[double]) as box:
        result = box.run('call double {"n": 21}')
        assert result.stdout == '{"ok": 42}\n', result
        assert box.facts == {"tenant": "acme", "embedded": False}
        assert [one.result.stdout for one in box.batch([f"print {n}" for n in range(3)], concurrency=1)] == [
            "0\n",
            "1\n",
            "2\n",
        ]
        assert repr(box) == f"<Sandbox {gateway.url}>"
    (request,) = gateway.seen
    assert request.path == "/v1/connect"
    assert request.headers["User-Agent"].startswith("thermae-python/")
    assert "Origin" not in request.headers


def test_nothing_but_the_fleet_of_the_gateway_is_asked_for(gateway: FakeGateway, bridge: Log) -> None:
    with Sandbox(f"{gateway.url}/below/", api_key=KEY):
        pass
    (opened,) = bridge.frames("open")
    assert set(opened) == {"pid", "type", "id"}
    assert gateway.seen[0].path == "/below/v1/connect"


@on_a_loop
async def test_the_environment_names_the_gateway_and_the_key() -> None:
    gateway = FakeGateway()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THERMAE_URL", gateway.url)
        patch.setenv("THERMAE_API_KEY", KEY)
        async with AsyncSandbox() as box:
            assert (await box.run("print a")).stdout == "a\n"
    await asyncio.to_thread(gateway.stop)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "amqp://acme@127.0.0.1", "api_key": "k"}, "api_key: only a gateway"),
        ({"url": "embedded", "api_key": "k"}, "api_key: only a gateway"),
        ({"url": "amqp://acme@127.0.0.1", "ssl_context": object()}, "ssl_context: only a gateway"),
        ({"url": "http://127.0.0.1", "ssl_context": object()}, "only https://"),
        ({"url": "https://h", "tenant": "acme"}, "tenant: "),
        ({"url": "https://h", "memory": "1GiB"}, "memory: only the embedded"),
        ({"url": "https://h", "api_key": "with space"}, "api_key: "),
        ({"url": "https://h", "api_key": "line\n"}, "api_key: "),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        Sandbox(**options)  # type: ignore[arg-type]
    assert "with space" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["https://", "http://h:99999", "https://user:pass@h", "https://h?x=1", "https://h/#x", "http://a b", "http://[::1"],
)
def test_a_malformed_url_is_told(url: str) -> None:
    with pytest.raises(errors.BadUrl) as raised, Sandbox(url):
        pass
    assert "https://" in raised.value.advice or "THERMAE_API_KEY" in raised.value.advice
    assert "pass@" not in str(raised.value)


def test_a_key_that_is_refused(gateway: FakeGateway) -> None:
    with pytest.raises(errors.ApiKeyRefused, match="no such key") as raised, Sandbox(gateway.url, api_key="hush"):
        pass
    assert (raised.value.code, raised.value.advice) == ("bad_token", "ask")
    assert "hush" not in str(raised.value)
    gateway.refusal = (401, b'{"code": "unauthorized", "detail": "the request has no token"}')
    with pytest.raises(errors.ApiKeyMissing) as missing, Sandbox(gateway.url):
        pass
    assert "THERMAE_API_KEY" in missing.value.advice
    assert "Authorization" not in gateway.seen[-1].headers


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (503, b'{"code": "draining", "detail": "later"}', errors.GatewayStopping),
        (429, b'{"code": "too_many_connections", "detail": "256"}', errors.TooManyConnections),
        (403, b'{"code": "hibernating", "detail": "not now"}', errors.ThermaeError),
        (401, b"<html>", errors.ApiKeyRefused),
        (502, b"<html>", errors.GatewayUnreachable),
        (404, b"<html>", errors.NotAGateway),
        (200, b'{"a": 1}', errors.NotAGateway),
        (200, b"[" * 100_000, errors.NotAGateway),
    ],
)
def test_what_answers_otherwise_is_told(
    gateway: FakeGateway, status: int, body: bytes, kind: type[errors.ThermaeError]
) -> None:
    gateway.refusal = (status, body)
    with pytest.raises(errors.ThermaeError) as raised, Sandbox(gateway.url, api_key=KEY):
        pass
    assert type(raised.value) is kind
    assert raised.value.advice or kind is errors.ThermaeError


def test_other_servers_are_no_gateways(gateway: FakeGateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        def talk() -> None:
            for _ in range(2):
                peer, _ = silent.accept()
                with peer:
                    peer.recv(1000)
                    peer.sendall(b"220 mail.example ESMTP\r\n")

        talking = threading.Thread(target=talk)
        talking.start()
        with pytest.raises(errors.NotAGateway), Sandbox(f"http://127.0.0.1:{port}"):
            pass
        with pytest.raises(errors.TlsFailed) as failed, Sandbox(f"https://127.0.0.1:{port}"):
            pass
        assert "cafile" in failed.value.advice
        talking.join()
    with pytest.raises(errors.GatewayUnreachable) as raised, Sandbox(f"http://127.0.0.1:{port}"):
        pass
    assert isinstance(raised.value, ConnectionError)
    with pytest.raises(errors.GatewayUnreachable), Sandbox("https://no-such-host.invalid"):
        pass
    # A server that speaks no TLS hangs up.
    with pytest.raises(errors.GatewayUnreachable, match="hung up"), Sandbox(gateway.url.replace("http", "https")):
        pass


def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    gateway = FakeGateway(tls)
    try:
        with pytest.raises(errors.TlsFailed, match="self-signed"), Sandbox(gateway.url, api_key=KEY):
            pass
        assert not gateway.seen
        elsewhere = gateway.url.replace("127.0.0.1", "localhost")
        trusts = ssl.create_default_context(cafile=certificate)
        with pytest.raises(errors.TlsFailed, match="localhost"), Sandbox(elsewhere, api_key=KEY, ssl_context=trusts):
            pass
        with Sandbox(gateway.url, api_key=KEY, ssl_context=trusts) as box:
            assert box.run("print a").stdout == "a\n"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Sandbox(gateway.url, api_key=KEY) as box:
            assert box.run("print b").stdout == "b\n"
    finally:
        gateway.stop()


def test_a_proxy_that_is_set_is_used_and_one_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        serving = threading.Thread(target=proxy.handle_request)
        serving.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.server_port}")
        with pytest.raises(errors.GatewayUnreachable, match="proxy"), Sandbox("https://gateway.example"):
            pass
        serving.join()
    assert asked == ["gateway.example:443"]


def test_a_lost_connection_fails_what_is_under_way_and_the_next_run_connects_again(gateway: FakeGateway) -> None:
    with Sandbox(gateway.url, api_key=KEY) as box:
        with pytest.raises(errors.ConnectionLost) as raised:
            box.run("die", job_id="mine", max_retries=0)
        assert raised.value.request_id == "mine"
        assert box.run("print again").stdout == "again\n"
    assert len(gateway.seen) == 2


def submissions(bridge: Log, job: str) -> int:
    """How often a job was submitted."""
    return len([one for one in bridge.frames("run") if one["job"] == job])


def test_a_gateway_that_stops_is_told_and_the_job_submitted_again(gateway: FakeGateway, bridge: Log) -> None:
    stopping = {"type": "error", "code": "draining", "message": "it stops", "advice": "again"}
    for retries in (0, 2):
        with Sandbox(gateway.url, api_key=KEY) as box:
            raised: list[errors.ThermaeError] = []

            def run(box: Sandbox = box, retries: int = retries, raised: list[errors.ThermaeError] = raised) -> None:
                try:
                    box.run("hold", job_id=f"job-{retries}", max_retries=retries)
                except errors.ThermaeError as error:
                    raised.append(error)

            running = threading.Thread(target=run)
            running.start()
            until(functools.partial(submissions, bridge, f"job-{retries}"))
            gateway.say(stopping)
            if retries:
                until(lambda: submissions(bridge, "job-2") == 2)
                box.close()
            running.join(20)
            assert len(raised) == 1
            if not retries:
                assert type(raised[0]) is errors.GatewayStopping
                assert raised[0].request_id == "job-0"


def go_away(gateway: FakeGateway, box: Sandbox, refusal: tuple[int, bytes]) -> None:
    """The gateway ends, and what is in its place refuses connections so."""
    gateway.refusal = refusal
    gateway.die()
    until(lambda: box._async.connection_here() is None)  # pyright: ignore[reportPrivateUsage]


def at_once(failures: int) -> float:
    """The pause before the next try."""
    return 0.01


@pytest.mark.parametrize(
    "refusal", [(502, b""), (503, b'{"code": "draining"}'), (503, b'{"code": "keys_unavailable"}')]
)
def test_a_gateway_that_restarts_is_waited_for(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, bytes]
) -> None:
    monkeypatch.setattr(_gateway_transport, "pause", at_once)
    with Sandbox(gateway.url, api_key=KEY) as box:
        go_away(gateway, box, refusal)

        def come_back() -> None:
            until(lambda: len(gateway.seen) > 9)
            gateway.refusal = None

        back = threading.Thread(target=come_back)
        back.start()
        assert box.run("print again", max_retries=0).stdout == "again\n"
        back.join()
    assert len(gateway.seen) > 10


def test_whether_anything_was_sent_to_a_gateway_that_stays_away_is_told(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_gateway_transport, "AWAY_FOR", 0.2)
    refused = (503, b'{"code": "draining"}')
    for code, sent in (("print", False), ("die", True)):
        gateway.refusal = None
        with Sandbox(gateway.url, api_key=KEY) as box:
            if sent:
                gateway.refusal = refused
            else:
                go_away(gateway, box, refused)
            with pytest.raises(errors.GatewayStopping) as raised:
                box.run(code, max_retries=2)
            assert raised.value.safe_to_retry is not sent
    # Nobody waits for a gateway that was never there.
    gateway.refusal = refused
    connections = len(gateway.seen)
    with pytest.raises(errors.GatewayStopping) as raised, Sandbox(gateway.url, api_key=KEY):
        pass
    assert raised.value.safe_to_retry
    assert len(gateway.seen) == connections + 1


def test_runs_of_a_fleet_that_is_gone_are_not_submitted_again(
    gateway: FakeGateway, bridge: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_EMBEDDED", "1")
    with Sandbox(gateway.url, api_key=KEY) as box:
        assert box.facts["embedded"] is True
        with pytest.raises(errors.ConnectionLost):
            box.run("die", job_id="mine")
    assert len(bridge.frames("run")) == 1


def test_the_log_has_no_key(gateway: FakeGateway, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "thermae"), Sandbox(gateway.url, api_key=KEY) as box:
        box.run("print a")
    assert any("connected" in one.message for one in caplog.records)
    assert KEY not in caplog.text
    assert KEY not in repr(Gateway(gateway.url, KEY))


def test_a_forked_child_does_not_disturb_the_connection(gateway: FakeGateway) -> None:
    process = program(
        f"""
        import os
        from thermae import ForkedClientError, Sandbox
        with Sandbox({gateway.url!r}, api_key={KEY!r}) as box:
            box.run("print a")
            for _ in range(3):
                if (child := os.fork()) == 0:
                    try:
                        box.run("print b")
                    except ForkedClientError:
                        with Sandbox({gateway.url!r}, api_key={KEY!r}) as own:
                            os._exit(own.run("print c").stdout != "c\\n")
                    os._exit(9)
                assert os.waitpid(child, 0)[1] == 0
            print(box.run("print d").stdout.strip())
        """,
        forks=True,
    )
    assert finished(process) == (0, "d\n", "")
    assert len(gateway.seen) == 4


def test_what_only_posix_has_is_not_needed(gateway: FakeGateway) -> None:
    process = program(f"""
        import sys
        sys.path.insert(0, {os.path.dirname(os.path.dirname(__file__))!r})
        import other_systems
        other_systems.imitate()
        from thermae import Sandbox, ThermaeError, tool
        @tool
        def double(n: int) -> int:
            return 2 * n
        with Sandbox({gateway.url!r}, api_key={KEY!r}, tools=[double]) as box:
            print(box.run('call double {{"n": 21}}').stdout.strip())
        try:
            import thermae._packages
        except ImportError as error:
            print(error.name)
        try:
            Sandbox("embedded", packages=["six"])
        except ThermaeError as error:
            print(error.code)
        # The sockets' numbers are none of files there, so a loop that ends early must not take them for that.
        import asyncio, os
        from thermae import AsyncSandbox
        box = AsyncSandbox({gateway.url!r}, api_key={KEY!r})
        print(asyncio.run(box.run("print a")).stdout.strip())
        os.dup2 = None
        asyncio.run(box.close())
        """)
    assert finished(process) == (0, '{"ok": 42}\nfcntl\nembedded_unavailable\na\n', "")


@of_the_embedded_fleet
def test_the_import_of_the_package_brings_no_websockets_along() -> None:
    process = program("""
        import sys
        from thermae import Sandbox
        with Sandbox() as box:
            box.run("print a")
        print("websockets" in sys.modules)
        """)
    assert finished(process) == (0, "False\n", "")
