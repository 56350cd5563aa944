"""
tries = "calls a tool with JSON that one parser takes and the next may not: lone surrogates, numbers beyond all bounds"
wins = "a call that nobody can answer; a client that falls over"
guard = "the worker reads the arguments before they leave the machine, and answers by itself what it can't read"
uncontrolled = "outside of a sandbox there is no channel"
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
