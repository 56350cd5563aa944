"""
tries = "asks `arch_prctl` for more than a thread's own segments: faults at `cpuid`, another mapping of the vDSO, shadow stacks"
wins = "rarely reviewed kernel code"
guard = "the seccomp filter allows `arch_prctl` only with what libc asks for"
control = {}
held."*" = { any = ["EPERM", "no such call here"] }
open.cpuid = { any = ["worked", "ENODEV", "no such call here"] }
open.unknown = { any = ["EINVAL", "no such call here"] }
"""
call("arch_prctl", 0x1011, 0, told="cpuid")
call("arch_prctl", 0x2003, 0, told="kernels_page")
call("arch_prctl", 0x4001, 0, told="untagged")
call("arch_prctl", 0x5001, 1, told="shadow_stack")
call("arch_prctl", 0x7777, 0, told="unknown")
