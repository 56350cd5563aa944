"""
tries = "lets children print without end after it has ended itself"
wins = "output that counts for nobody"
guard = "the sandbox is killed with its program; what was written till then is bounded"
uncontrolled = "outside of a sandbox nothing reads the output"
aftermath = true
held.started = true
"""
observe("started", True)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.05)
        while True:
            os.write(1, b"x" * 4096)
