"""
tries = "looks for secrets in its own environment and in that of pid 1"
wins = "the worker's credentials"
guard = "the runner starts with an empty environment; a job's environment holds only what the job itself asked for"
control = { within = ["env", "THERMAE_AMQP=amqp://fleet:secret@127.0.0.1"] }
held.names = []
held.init = "EACCES"
open.names = { none = [[]] }
# On gVisor, pid 1 is the runner, which has the image's environment.
[runsc]
held.init = "worked"
"""
SUSPECT = ("THERMAE", "AMQP", "REDIS", "DOCKER", "AWS", "TOKEN", "SECRET", "KEY", "PASS", "CARGO", "SSH")
# What tells git that a sandbox has no network.
OWN = {"GIT_CONFIG_KEY_0", "GIT_SSH_COMMAND"}
observe("names", sorted(name for name in set(os.environ) - OWN if any(word in name for word in SUSPECT)))
attempt("init", lambda: open("/proc/1/environ").read())
