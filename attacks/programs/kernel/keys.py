"""
tries = "adds, requests and reads keys, joins a keyring"
wins = "keys of others (they are not the sandbox's own), a channel to the next job, the user's quota"
guard = "seccomp: none of the three is in the table"
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
