"""
tries = "leaves among its artifacts a FIFO that nobody writes to, and a socket that nobody answers"
wins = "a runner that waits forever, and a container that no other job gets"
guard = "the runner opens only regular files for reading, and never in a way that blocks"
uncontrolled = "outside a sandbox, nothing collects artifacts"
aftermath = true
held.made = 2
[outcome.artifacts]
[outcome.left_out]
"/workspace/artifacts/fifo" = "special"
"/workspace/artifacts/socket" = "special"
[runsc]
skip = "without an inner wall, no files go in or out"
"""
import socket
here = "/workspace/artifacts/"
os.mkfifo(here + "fifo")
server = socket.socket(socket.AF_UNIX)
server.bind(here + "socket")
server.listen()
observe("made", 2)
