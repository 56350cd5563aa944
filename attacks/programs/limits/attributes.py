"""
tries = "gives its files extended attributes of 64 KiB each, as many as it can"
wins = "kernel memory beyond its disk limit"
guard = "tmpfs counts attributes against its space for inodes; before Linux 6.6, tmpfs has no user attributes"
uncontrolled = "the machine's own file systems bound attributes in other ways"
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
