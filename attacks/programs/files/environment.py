"""
tries = "looks for secrets in the environment, its own and of the processes that it sees"
wins = "credentials of the worker's"
guard = "the runner starts with an empty environment; a job's is made of what the job itself asked for"
control = { within = ["env", "THERMAE_AMQP=amqp://fleet:secret@127.0.0.1"] }
held.names = []
held.init = "EACCES"
open.names = { none = [[]] }
# Of the runner, which has the image's.
[runsc]
held.init = "worked"
"""
SUSPECT = ("THERMAE", "AMQP", "REDIS", "DOCKER", "AWS", "TOKEN", "SECRET", "KEY", "PASS", "CARGO", "SSH")
observe("names", sorted(name for name in os.environ if any(word in name for word in SUSPECT)))
attempt("init", lambda: open("/proc/1/environ").read())
