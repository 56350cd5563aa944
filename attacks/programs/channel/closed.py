"""
tries = "shuts its channel, goes on running, prints, and exits on its own"
wins = "a job whose end nobody notices"
guard = "the kernel reports the end: exit status and usage come from the process itself"
uncontrolled = "outside a sandbox, there is no channel"
aftermath = true
held.before = true
outcome = { status = "failed", error = "code_exited", stdout = "still here\n" }
"""
observe("before", True)
tell()
channel().shutdown(socket.SHUT_RDWR)
os.write(1, b"still here\n")
time.sleep(0.2)
os._exit(7)
