"""
tries = "loads a BPF program and makes a BPF map"
wins = "its own code in the kernel, past a verifier that it deceives"
guard = "the seccomp filter refuses `bpf`"
control = {}
held.map = "EPERM"
held.program = "EPERM"
open.map = "worked"
open.program = { none = ["EPERM"] }
"""
call("bpf", 0, struct.pack("4I", 2, 4, 4, 1) + bytes(112), 128, told="map")
call("bpf", 5, bytes(128), 128, told="program")
