"""
tries = "leaves a fifo that nobody writes, and a socket that nobody answers, among its artifacts"
wins = "a runner that waits for ever, and a container that no other job gets"
guard = "what is no regular file is never opened for reading, and nothing is opened blocking"
uncontrolled = "outside of a sandbox nobody collects artifacts"
aftermath = true
held.made = 2
[outcome.artifacts]
[outcome.left_out]
"/workspace/artifacts/fifo" = "special"
"/workspace/artifacts/socket" = "special"
[runsc]
skip = "without an inner wall no files go in or out"
"""
import socket
here = "/workspace/artifacts/"
os.mkfifo(here + "fifo")
server = socket.socket(socket.AF_UNIX)
server.bind(here + "socket")
server.listen()
observe("made", 2)
