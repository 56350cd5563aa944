"""
tries = "asks for a reboot, with the right magic numbers and the command that would do least"
wins = "the machine's end, or that of the pid namespace"
guard = "seccomp: reboot is not in the table; no capability besides"
uncontrolled = "it would change what the machine does at Ctrl-Alt-Delete"
held.reboot = "EPERM"
"""
call("reboot", 0xFEE1DEAD, 672274793, 0, None)
