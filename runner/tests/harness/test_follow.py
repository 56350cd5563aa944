"""Output that somebody follows goes out line by line, in its order; other output in large pieces."""

import unittest

from support import Case, reply, tool


class Follow(Case):
    def at_the_call(self, code, **options):
        """What had been printed when the program called its tool: nothing is flushed by the call."""
        seen = []

        def at(process, outcome):
            if outcome.calls and not seen and len(outcome.stdout) + len(outcome.stderr) >= options_wanted:
                seen.append((outcome.out, outcome.err))
                reply(process, outcome.calls[0], None)

        options_wanted = options.pop("wanted")
        outcome = self.fresh(code, tools=[tool("wait")], at=at, **options)
        return seen[0], outcome

    def test_each_line_goes_out_at_once(self):
        code = "import sys\nprint('one')\nprint('two', end='')\nprint('err', file=sys.stderr)\nwait.sync()\nprint('!')"
        seen, outcome = self.at_the_call(code, follow=True, wanted=8)
        self.assertEqual(seen, ("one\n", "err\n"))
        self.assertEqual(outcome.out, "one\ntwo!\n")

    def test_who_is_not_followed_writes_in_large_pieces(self):
        seen, outcome = self.at_the_call("print('one')\nwait.sync()", wanted=0)
        self.assertEqual(seen, ("", ""))
        self.assertEqual(outcome.out, "one\n")

    def test_a_session_may_be_followed_in_one_run_and_not_in_the_next(self):
        session = self.session()
        code = "import sys\nprint(sys.stdout.line_buffering)"
        got = [session.run(code, session=True, follow=follow).out for follow in (False, True, True, False)]
        self.assertEqual(got, ["False\n", "True\n", "True\n", "False\n"])
        session.run("sys.stdout.close()", session=True, follow=True)
        self.assertEqual(session.run(code, session=True, follow=True).out, "True\n")
        session.run("sys.stdout.detach()", session=True)
        self.assertEqual(session.run(code, session=True, follow=True).out, "True\n")

    def test_children_too(self):
        code = "import os\npid = os.fork()\nif not pid:\n    print('child')\n    wait_forever = os.pipe()[0]\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('parent')"
        self.assertEqual(self.ok(code, follow=True).out, "child\nparent\n")


if __name__ == "__main__":
    unittest.main()
