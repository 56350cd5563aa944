"""
tries = "crashes in a thread, in a child with a session of its own, and in a program that it wrote, on a machine whose crash handler is a program"
wins = "a program that runs as root outside both walls"
guard = "everything that the job starts inherits the limit on core dumps, and nothing in the container may change it"
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
