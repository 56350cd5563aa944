"""
tries = "lets three children end their first threads, while another thread of each takes 120 MiB"
wins = "memory that /proc/PID/status does not tell"
guard = "the runner asks another thread; its watch over the sandbox's sum ends all"
slow = true
uncontrolled = "it would take the machine's memory"
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
