"""
tries = "loads a seccomp filter and a Landlock rule set of its own"
wins = "a supervisor that answers in the kernel's place; kernel code that no program here needs"
guard = "the seccomp filter refuses `seccomp` and Landlock's calls"
control = {}
held."*" = "EPERM"
open.seccomp = { none = ["EPERM"] }
open.landlock_create_ruleset = { none = ["EPERM"] }
"""
call("seccomp", 1, 1 << 3, struct.pack("HxxxxxxQ", 1, 0))
call("landlock_create_ruleset", None, 0, 1)
call("landlock_add_rule", -1, 1, None, 0)
call("landlock_restrict_self", -1, 0)
