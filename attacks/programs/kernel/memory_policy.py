"""
tries = "binds, moves and migrates pages between memory nodes, and asks for secret and shadow-stack memory"
wins = "where other processes' pages are, and a way to move them; memory that nothing counts"
guard = "the seccomp filter refuses all of these calls"
control = {}
held."*" = "EPERM"
open.set_mempolicy = "worked"
open.mbind = { none = ["EPERM"] }
open.move_pages = { none = ["EPERM"] }
"""
call("set_mempolicy", 0, None, 0)
call("mbind", 0, 4096, 0, None, 0, 0)
call("migrate_pages", os.getpid(), 0, None, None)
call("move_pages", os.getpid(), 0, None, None, None, 0)
call("memfd_secret", 0)
call("map_shadow_stack", 0, 4096, 0)
