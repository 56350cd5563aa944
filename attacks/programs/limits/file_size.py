"""
tries = "makes a file of a terabyte: with `truncate`, with `fallocate`, and with a write beyond the end"
wins = "a program that reads the whole file and runs out of memory"
guard = "an rlimit on the size of a file"
uncontrolled = "it would show nothing: such files are allowed elsewhere"
aftermath = true
held.truncate = "EFBIG"
held.fallocate = "EFBIG"
held.seek = "EFBIG"
"""
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
handle = os.open("/tmp/large", os.O_CREAT | os.O_WRONLY)
attempt("truncate", os.truncate, handle, 1 << 40)
attempt("fallocate", os.posix_fallocate, handle, 0, 1 << 40)
os.lseek(handle, 1 << 40, os.SEEK_SET)
attempt("seek", os.write, handle, b"x")
