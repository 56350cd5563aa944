"""
tries = "sets a signal handler, blocks signals, leaves one of them pending, and sets an alarm"
wins = "a next job that is interrupted, or that can't be"
guard = "each job is a fork of an interpreter in which no job has run"
control = { mode = "same" }
held.left = true
held.blocked = []
held.pending = []
held.alarm = 0
held.handler = true
open.blocked = { none = [[]] }
open.pending = { none = [[]] }
open.handler = false
"""
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGWINCH})
os.kill(os.getpid(), signal.SIGUSR2)
signal.setitimer(signal.ITIMER_REAL, 30)
observe("left", True)
# --- the next job
observe("blocked", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
observe("pending", sorted(signal.sigpending()))
observe("alarm", int(signal.getitimer(signal.ITIMER_REAL)[0]))
observe("handler", signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, 0)
