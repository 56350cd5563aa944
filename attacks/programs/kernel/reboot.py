"""
tries = "asks for a reboot, with the right magic numbers and the most harmless command"
wins = "the end of the machine, or of the pid namespace"
guard = "the seccomp filter refuses `reboot`; the job has no capability either"
uncontrolled = "it would change what the machine does on Ctrl-Alt-Delete"
held.reboot = "EPERM"
"""
call("reboot", 0xFEE1DEAD, 672274793, 0, None)
