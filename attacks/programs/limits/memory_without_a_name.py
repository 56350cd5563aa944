"""
tries = "lets three children whose names are no text take 120 MiB each"
wins = "memory that a reader of /proc/PID/status does not see"
guard = "the runner reads names as bytes; its watch over the sandbox's sum ends all"
slow = true
uncontrolled = "it would take the machine's memory"
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
