"""
tries = "leaves children that print without end after its own end"
wins = "output that counts for nobody"
guard = "the sandbox is killed with its program; the output until then is bounded"
uncontrolled = "outside a sandbox, nothing reads the output"
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
