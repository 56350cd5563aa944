"""
tries = "attaches its own programs (classic BPF) to sockets, as filters and to choose among listeners, locks them and detaches them"
wins = "the kernel's compiler for such programs, and so code of its choice in kernel memory"
guard = "the seccomp filter allows `setsockopt` only with the options that programs need"
control = {}
held."*" = "EPERM"
open.attach = "worked"
open.lock = "worked"
"""
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))
program = struct.pack("H6xQ", 1, ctypes.addressof(code))
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("attach", made.setsockopt, socket.SOL_SOCKET, 26, program)
attempt("lock", made.setsockopt, socket.SOL_SOCKET, 44, 0)
attempt("detach", made.setsockopt, socket.SOL_SOCKET, 27, 0)
made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("choose", made.setsockopt, socket.SOL_SOCKET, 51, program)
attempt("attach_extended", made.setsockopt, socket.SOL_SOCKET, 50, 3)
attempt("choose_extended", made.setsockopt, socket.SOL_SOCKET, 52, 3)
attempt("read", made.getsockopt, socket.SOL_SOCKET, 26, 64)
