"""
tries = "starts three children that take 120 MiB each and whose names are not UTF-8"
wins = "memory that a reader of `/proc/PID/status` does not see"
guard = "the runner reads names as bytes, and its watch on the memory of the whole sandbox ends the job"
slow = true
uncontrolled = "it would use up the machine's memory"
aftermath = true
held.children = 3
outcome = { status = "out_of_memory", error = "out_of_memory" }
"""
observe("children", 3)
tell()
for _ in range(3):
    if os.fork() == 0:
        syscall("prctl", 15, ctypes.create_string_buffer(b"\xff\xfe"), 0, 0, 0)
        hoard = bytearray(b"x") * (120 << 20)
        signal.pause()
        os._exit(0)
time.sleep(20)
