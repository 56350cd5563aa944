"""Starts a bridge, runs programs on it, and says which processes there are. Then holds on until it is killed."""

import json
import os
import socket
import struct
import subprocess
import sys
import time

ours, theirs = socket.socketpair()
args = [sys.argv[1], "bridge", "--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
bridge = subprocess.Popen(args, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
theirs.close()
stream = ours.makefile("rb")


def send(header: dict, payload: bytes = b"") -> None:
    text = json.dumps(header).encode()
    ours.sendall(struct.pack("<II", 4 + len(text) + len(payload), len(text)) + text + payload)


def read() -> tuple[dict, bytes]:
    whole, header = struct.unpack("<II", stream.read(8))
    return json.loads(stream.read(header)), stream.read(whole - 4 - header)


def run(number: int, code: str) -> None:
    job = {"id": f"job-{number}", "code": code, "stream": ["lifecycle"]}
    send({"type": "run", "id": number, "window": 1 << 20}, json.dumps(job).encode())


send({"type": "hello", "versions": [1], "sdk": "test/0"})
send({"type": "open", "id": 0, "embedded": {"slots": 2, "warm": 1}})
for number in range(1, 9):
    run(number, "import time\ntime.sleep(600)")
started = 0
while started < 2:
    header, payload = read()
    assert header["type"] != "error", header
    started += header["type"] == "event" and json.loads(payload)["event"] == "started"
holder = os.fork()
if holder == 0:
    # Holds a copy of the socket. Its standard streams are the test's.
    os.close(1)
    time.sleep(600)
print(json.dumps({"bridge": bridge.pid, "holder": holder}), flush=True)
for line in sys.stdin:
    # After a Ctrl-C that reached the bridge, too, it must still run programs.
    for number in range(1, 9):
        send({"type": "cancel", "id": number})
    run(9, "print(9)")
    while header != {"type": "done", "id": 9}:
        header, payload = read()
    print("served", flush=True)
