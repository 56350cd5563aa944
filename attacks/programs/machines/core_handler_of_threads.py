"""
tries = "crashes in a thread, in a grandchild in a session of its own, and in a program that it wrote, where the crash handler is a program"
wins = "a program outside of both walls, as root"
guard = "the limit is inherited by all that it starts, and nobody in the container may set it"
machine = "piped_cores"
control = {}
held."*" = false
open.thread = true
open.program = true
"""
import resource
import threading

if CONTROL:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def told(name, action):
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    observe(name, os.WCOREDUMP(os.waitpid(pid, 0)[1]))


def in_a_thread():
    thread = threading.Thread(target=os.abort)
    thread.start()
    thread.join()


def apart():
    os.setsid()
    os.abort()


def program():
    path = PLACE + "/crash"
    with open(path, "w") as file:
        file.write("#!/bin/sh\nkill -ABRT $$\n")
    os.chmod(path, 0o700)
    os.execv(path, [path])


told("thread", in_a_thread)
told("apart", apart)
told("program", program)
