"""
tries = "prints without end, on both streams"
wins = "a worker without memory, a client without end"
guard = "a limit on a run's output; the job is killed at it"
uncontrolled = "outside of a sandbox nothing reads the output"
aftermath = true
limits = { output_bytes = 100000 }
held.started = true
outcome = { status = "output_limit", error = "output_limit" }
"""
observe("started", True)
tell()
while True:
    os.write(1, b"x" * 65536)
    os.write(2, b"y" * 65536)
