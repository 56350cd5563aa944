"""
tries = "leaves children that print without end after its own end"
wins = "output that counts for nobody"
guard = "the sandbox is killed with its program; the output until then is bounded"
uncontrolled = "outside a sandbox, nothing reads the output"
aftermath = true
held.started = true
"""
observe("started", True)
# Only this process holds the writing end, so the children go on when it is gone. In bash, its shell still runs then. So
# the children print little at a time, and do not reach the limit before the shell has ended, too.
gone, held = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        os.close(held)
        os.read(gone, 1)
        while True:
            os.write(1, b"x")
