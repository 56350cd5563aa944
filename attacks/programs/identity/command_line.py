"""
tries = "reads the kernel's command line"
wins = "the root disk's identity, settings of the machine, sometimes a password"
guard = "the file is covered by `/dev/null`"
control = {}
held.line = ""
open.line = { none = [""] }
[runsc]
held.line = { none = ["worked"] }
"""
def head(path):
    try:
        with open(path) as file:
            return file.read(200)
    except FileNotFoundError:
        return ""



observe("line", head("/proc/cmdline"))
