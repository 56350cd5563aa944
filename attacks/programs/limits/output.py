"""
tries = "prints without end, on both streams"
wins = "a worker without memory, a client that never finishes"
guard = "a limit on a run's output, at which the job is killed"
uncontrolled = "outside a sandbox, nothing reads the output"
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
