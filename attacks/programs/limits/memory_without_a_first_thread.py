"""
tries = "starts three children whose first thread ends while another thread takes 120 MiB"
wins = "memory that `/proc/PID/status` does not show"
guard = "the runner asks another thread, and its watch on the memory of the whole sandbox ends the job"
slow = true
uncontrolled = "it would use up the machine's memory"
aftermath = true
held.children = 3
outcome = { status = "out_of_memory", error = "out_of_memory" }
"""
import threading

def hold():
    hoard = bytearray(b"x") * (120 << 20)
    time.sleep(20)
    os._exit(0)

observe("children", 3)
tell()
for _ in range(3):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        syscall("exit", 0)
time.sleep(20)
