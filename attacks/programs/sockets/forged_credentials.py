"""
tries = "sends credentials that are not its own over a Unix socket: root's, pid 1's, another user's, another group's"
wins = "the trust of programs that believe a peer's credentials"
guard = "the kernel requires a capability, which the job lacks; only the job's own user is mapped"
control = {}
held.own = "worked"
held."*" = { any = ["EPERM", "EINVAL", "ESRCH"] }
open.root = "worked"
open.init = "worked"
[runsc]
held."*" = { any = ["EPERM", "EINVAL", "ESRCH", "worked"] }
"""
one, other = socket.socketpair()
other.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)


def send(pid, user, group):
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iII", pid, user, group))])


attempt("own", send, os.getpid(), os.getuid(), os.getgid())
attempt("root", send, os.getpid(), 0, os.getgid())
attempt("root_group", send, os.getpid(), os.getuid(), 0)
attempt("init", send, 1, os.getuid(), os.getgid())
attempt("user", send, os.getpid(), 65534, os.getgid())
