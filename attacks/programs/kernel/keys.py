"""
tries = "adds, requests and reads keys, and joins a keyring"
wins = "keys of others (no namespace separates them), a channel to the next job, the user's quota"
guard = "the seccomp filter refuses all three calls"
control = {}
held."*" = "EPERM"
open.add_key = "worked"
open.session = "worked"
open.request_key = "ENOKEY"
"""
PROCESS_KEYRING = -2
call("keyctl", 1, None, told="session")
call("add_key", b"user", b"thermae", b"secret", 6, PROCESS_KEYRING)
call("request_key", b"user", b"nothing", None, PROCESS_KEYRING)
call("keyctl", 11, PROCESS_KEYRING, None, 0, told="read")
