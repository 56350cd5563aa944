"""Measures the time from the "run" message to "done", in microseconds, without sandbox and runner: `python3 bench.py
[JOBS]`.

Promise: `print(1+1)` in a fresh process p50 below 150 us.
"""

import gc
import os
import struct
import sys
import time

from support import Process, tool


def asleep(pid):
    """Wait until the child blocks on its channel."""
    while True:
        with open("/proc/%d/stat" % pid) as file:
            if file.read().rsplit(")", 1)[1].split()[0] == "S":
                return
        os.sched_yield()


def until_done(process):
    while True:
        process.buffer += process.channel.recv(65536)
        for message in process.take():
            if message["op"] == "done":
                return time.perf_counter()
            if message["op"] == "call":
                text = b'{"op":"result","call":%d,"ok":1}' % message["call"]
                process.channel.sendall(struct.pack("<I", len(text)) + text)


def measure(process, code, **options):
    asleep(process.pid)
    began = time.perf_counter()
    pipes = process.start(code, **options)
    ended = until_done(process)
    for fd in pipes:
        os.close(fd)
    return (ended - began) * 1e6


def fresh(code, count, **options):
    times = []
    for _ in range(count):
        process = Process()
        times.append(measure(process, code, **options))
        process.wait()
        process.close()
    return times


def session(code, count, **options):
    process = Process()
    times = [measure(process, code, session=True, **options) for _ in range(count)]
    process.close()
    return times


def tell(name, times):
    times.sort()
    at = lambda share: times[int(len(times) * share)]
    print("%-34s p50 %6.0f  p95 %6.0f  p99 %6.0f us" % (name, at(0.5), at(0.95), at(0.99)))


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    gc.collect()
    gc.disable()
    gc.freeze()
    mid = "def f(a):\n    return [x * 2 for x in a if x]\n\n" * 10 + "print(f([1, 2]))"
    fresh("pass", 20)
    tell("fresh: print(1+1)", fresh("print(1+1)", count))
    tell("fresh: a program of 40 lines", fresh(mid, count))
    tell("fresh: 1/0", fresh("1/0", count))
    tell("fresh: import asyncio; await sleep(0)", fresh("import asyncio\nawait asyncio.sleep(0)", count))
    tell("fresh: one tool call", fresh("print(await a())", count, tools=[tool("a")]))
    tell("fresh: ten tool calls in turn", fresh("for i in range(10):\n    await a()", count, tools=[tool("a")]))
    tell("session: print(1+1)", session("print(1+1)", count))
    tell("session: one tool call", session("await a()", count, tools=[tool("a")]))


if __name__ == "__main__":
    main()
