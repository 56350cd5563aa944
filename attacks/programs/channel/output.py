"""
tries = "prints text that looks like the end of a job, a frame, a result or a marker"
wins = "a forged result"
guard = "nothing is parsed out of a job's output, which arrives byte for byte"
uncontrolled = "outside a sandbox, nothing reads the output"
held.written = 5
[outcome]
stdout = "\u0000\n{\"op\":\"done\",\"how\":\"ok\"}\n--- end ---\n\u001b[2J\r\n{\"status\":\"succeeded\"}\n"
"""
for text in [b"\0\n", b'{"op":"done","how":"ok"}\n', b"--- end ---\n", b"\x1b[2J\r\n", b'{"status":"succeeded"}\n']:
    os.write(1, text)
observe("written", 5)
