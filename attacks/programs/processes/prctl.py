"""
tries = "changes its own attributes with `prctl`: securebits, kept and ambient capabilities, who may trace it, its memory map, a filter of its own"
wins = "capabilities after an `exec`; a tracer; a filter that answers in the kernel's place"
guard = "the seccomp filter allows `prctl` only with the options that programs need"
control = {}
held."*" = "EPERM"
# The kernel itself never turns no_new_privs off.
held.no_new_privs_off = "EINVAL"
open.keepcaps = "worked"
open.securebits = "worked"
open.dumpable = "worked"
open.ambient = "worked"
open.seccomp = "EFAULT"
"""
SECCOMP_FILTER = 2
for name, option, value in [
    ("keepcaps", 8, 1),
    ("securebits", 28, 0),
    ("dumpable", 4, 0),
    ("ptracer", 0x59616D61, -1),
    ("mm", 35, 1),
    ("bounding", 24, 0),
    ("no_new_privs_off", 38, 0),
]:
    call("prctl", option, value, 0, 0, 0, told=name)
call("prctl", 47, 4, 0, 0, 0, told="ambient")
call("prctl", 22, SECCOMP_FILTER, 0, 0, 0, told="seccomp")
