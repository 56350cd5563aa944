"""
tries = "loads and unloads kernel modules"
wins = "the kernel"
guard = "seccomp: none of the three is in the table; no capability besides"
control = {}
held."*" = "EPERM"
open.init_module = { none = ["worked", "EPERM"] }
open.finit_module = { none = ["worked", "EPERM"] }
open.delete_module = { none = ["worked", "EPERM"] }
"""
call("init_module", b"\x7fELF", 4, b"")
call("finit_module", -1, b"", 0)
call("delete_module", b"no_such_module", 0)
