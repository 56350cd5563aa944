"""
tries = "calls a tool with JSON that some parsers accept and others refuse: lone surrogates, numbers beyond every range"
wins = "a call that nobody can answer; a client that crashes"
guard = "the worker parses arguments before they leave the machine, and itself answers a call that it can't parse"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.answers = 3
outcome = { calls = 0 }
[[tools]]
name = "echo"
"""
import select

link = channel()
data = b""
for number, text in enumerate([rb'"\ud800"', b"1e999999", b"9" * 400]):
    link.sendall(frame(b'{"op":"call","call":%d,"name":"echo","arguments":{"x":%s}}' % (number, text)))
while data.count(b'"op":"result"') < 3 and select.select([link], [], [], 5)[0]:
    data += link.recv(65536)
observe("answers", data.count(b'"op":"result"'))
