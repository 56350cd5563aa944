"""
tries = "shuts its channel and runs on, prints, and ends by itself"
wins = "a job whose end nobody sees"
guard = "the end is the kernel's word: exit status and usage come from the process itself"
uncontrolled = "outside of a sandbox there is no channel"
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
