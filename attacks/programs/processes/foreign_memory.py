"""
tries = "reads and writes the memory of pid 1 and of its own child with `process_vm_readv` and `process_vm_writev`"
wins = "bytes of a process outside the sandbox"
guard = "the seccomp filter refuses both calls"
control = {}
held."*" = "EPERM"
open.read_child = "worked"
open.write_child = "worked"
"""
buffer = ctypes.create_string_buffer(b"12345678")
vector = struct.pack("2Q", ctypes.addressof(buffer), 8)
pid = os.fork()
if pid == 0:
    signal.pause()
if not CONTROL:
    call("process_vm_readv", 1, vector, 1, vector, 1, 0, told="read_init")
call("process_vm_readv", pid, vector, 1, vector, 1, 0, told="read_child")
call("process_vm_writev", pid, vector, 1, vector, 1, 0, told="write_child")
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
