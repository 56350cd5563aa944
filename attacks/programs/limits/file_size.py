"""
tries = "makes a file of a terabyte with nothing in it, and one by fallocate"
wins = "whoever reads it whole is out of memory"
guard = "rlimit on a file's size"
uncontrolled = "it shows nothing: such files are allowed elsewhere"
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
