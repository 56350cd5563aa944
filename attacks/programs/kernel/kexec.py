"""
tries = "loads another kernel"
wins = "the machine"
guard = "the seccomp filter refuses both calls; the job has no capability either"
uncontrolled = "it would replace the machine's kernel"
held."*" = "EPERM"
"""
call("kexec_load", 0, 0, None, 0)
call("kexec_file_load", -1, -1, 0, b"", 0)
