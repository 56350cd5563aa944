"""
tries = "loads another kernel"
wins = "the machine"
guard = "seccomp: neither call is in the table; no capability besides"
uncontrolled = "it would replace the machine's kernel"
held."*" = "EPERM"
"""
call("kexec_load", 0, 0, None, 0)
call("kexec_file_load", -1, -1, 0, b"", 0)
