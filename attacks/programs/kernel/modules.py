"""
tries = "loads and unloads kernel modules"
wins = "the kernel"
guard = "the seccomp filter refuses all three calls; the job has no capability either"
control = {}
held."*" = "EPERM"
open.init_module = { none = ["worked", "EPERM"] }
open.finit_module = { none = ["worked", "EPERM"] }
open.delete_module = { none = ["worked", "EPERM"] }
"""
call("init_module", b"\x7fELF", 4, b"")
call("finit_module", -1, b"", 0)
call("delete_module", b"no_such_module", 0)
