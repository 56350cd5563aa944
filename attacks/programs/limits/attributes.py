"""
tries = "gives its files attributes (xattrs) of 64 KiB each, as many as it can"
wins = "kernel memory beyond its disk"
guard = "tmpfs counts them as its inodes' room; before Linux 6.6 it has none for users"
uncontrolled = "the machine's own file systems bound them otherwise"
aftermath = true
held.refused = { any = ["ENOSPC", "EOPNOTSUPP", "ENOMEM"] }
held.megabytes = { max = 300 }
"""
kept, refused, number = 0, "", 0
while kept < 1 << 30 and not refused:
    path = "%s/%d" % (PLACE, number)
    number += 1
    try:
        opened(path, os.O_WRONLY | os.O_CREAT)
        for name in range(16):
            os.setxattr(path, "user.%d" % name, bytes(65536))
            kept += 65536
    except OSError as error:
        refused = errno.errorcode[error.errno]
observe("refused", refused)
observe("megabytes", kept >> 20)
