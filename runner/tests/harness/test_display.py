"""Values and displays as MIME bundles."""

import base64
import unittest

from support import Case, harness

LEFT_OUT = harness.harness_show.LEFT_OUT

FAKE_PYPLOT = '''
import sys, types
figure = types.ModuleType("matplotlib.figure")
class Figure:
    number = 0
    def savefig(self, out, format, bbox_inches): out.write(b"png%d" % self.number)
figure.Figure = Figure
helpers = types.ModuleType("matplotlib._pylab_helpers")
managers = {}
class Gcf:
    @staticmethod
    def get_all_fig_managers(): return list(managers.values())
helpers.Gcf = Gcf
pyplot = types.ModuleType("matplotlib.pyplot")
def new():
    f = Figure(); f.number = len(managers) + 1
    m = types.SimpleNamespace(canvas=types.SimpleNamespace(figure=f)); managers[f.number] = m
    return f
def close(f): managers.pop(f.number, None)
pyplot.close = close
sys.modules.update({"matplotlib": types.ModuleType("matplotlib"), "matplotlib.figure": figure, "matplotlib._pylab_helpers": helpers, "matplotlib.pyplot": pyplot})
'''


class Display(Case):
    def test_it_can_be_copied_and_pickled(self):
        code = (
            "import builtins, copy, pickle\n"
            "copied = copy.deepcopy({'display': display})['display']\n"
            "found = pickle.loads(pickle.dumps((display, ToolError('no', 'add'))))\n"
            "print(copied is display is builtins.display is found[0], repr(found[1]))"
        )
        self.assertEqual(self.ok(code).out, "True ToolError('no')\n")

    def test_rich_values(self):
        code = (
            "class A:\n    def __repr__(self): return 'plain'\n    def _repr_html_(self): return '<b>h</b>'\n    def _repr_png_(self): return b'\\x89PNG'\n"
            "    def _repr_svg_(self): return '<svg/>'\n    def _repr_markdown_(self): return '*m*'\n    def _repr_json_(self): return {'k': [1]}\n"
            "    def _repr_latex_(self): return '$x$', {'meta': 1}\n    def _repr_jpeg_(self): return None\nA()"
        )
        self.assertEqual(
            self.ok(code).value,
            {
                "text/plain": "plain",
                "text/html": "<b>h</b>",
                "image/png": base64.b64encode(b"\x89PNG").decode(),
                "image/svg+xml": "<svg/>",
                "text/markdown": "*m*",
                "application/json": {"k": [1]},
                "text/latex": "$x$",
            },
        )

    def test_mimebundle(self):
        code = "class A:\n    def __repr__(self): return 'r'\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/plain': 'mine', 'a/b': b'x'}, {}\nA()"
        self.assertEqual(self.ok(code).value, {"text/plain": "mine", "a/b": "eA=="})

    def test_two_keys_that_are_one_in_json_are_refused(self):
        for keys in "1: 1, '1': 2", "None: 1, 'null': 2", "True: 1, 'true': 2", "1.5: 1, '1.5': 2":
            code = "display({'application/json': [{'a': {%s}}]}, raw=True)" % keys
            error = self.raised(code, "ValueError").error
            self.assertRegex(error["message"], "^the key \"(1|null|true|1.5)\" stands twice$")
        code = "class A:\n    def __repr__(self): return 'r'\n    def _repr_json_(self): return {1: 1, '1': 2}\nA()"
        self.assertEqual(self.ok(code).value, {"text/plain": "r"})

    def test_a_form_that_json_can_not_express_takes_no_other_one_along(self):
        forms = "{'application/json': {'a': [float('nan')], 'b': datetime.date(2026, 7, 4)}, 'x/y': {'f': len}, 'text/html': '<b>'}"
        mine = {"application/json": {"a": [None], "b": "2026-07-04"}, "text/html": "<b>"}
        code = (
            "import datetime\nclass A:\n    def __repr__(self): return 'r'\n"
            "    def _repr_mimebundle_(self, include=None, exclude=None): return %s\nA()" % forms
        )
        self.assertEqual(self.ok(code).value, {"text/plain": "r", **mine})
        error = self.raised("import datetime\ndisplay(%s, raw=True)" % forms, "TypeError").error
        self.assertIn("x/y.f has the type builtin_function_or_method", error["message"])

    def test_failing_reprs(self):
        code = "class A:\n    def __repr__(self): 1/0\n    def _repr_html_(self): 1/0\n    def _repr_json_(self): return {len, 2}\n    _repr_png_ = 5\nA()"
        self.assertEqual(self.ok(code).value, {"text/plain": "<A whose repr() raised ZeroDivisionError>"})

    def test_objects_that_answer_every_attribute(self):
        outcome = self.ok("from unittest.mock import MagicMock\nMagicMock()")
        self.assertEqual(list(outcome.value), ["text/plain"])
        self.assertEqual(self.ok("class A:\n    def _repr_html_(self): return 'x'\nA").value, {"text/plain": "<class '__main__.A'>"})

    def test_display(self):
        code = "class A:\n    def __repr__(self): return 'r'\n    def _repr_html_(self): return 'h'\nprint('a')\ndisplay(1, A())\ndisplay({'x/y': 'z', 'b': b'1'}, raw=True)"
        outcome = self.ok(code)
        self.assertEqual(outcome.displays, [{"text/plain": "1"}, {"text/plain": "r", "text/html": "h"}, {"x/y": "z", "b": "MQ=="}])
        self.assertEqual([m["op"] for m in outcome.messages], ["started", "display", "display", "display", "done"])

    def test_too_large(self):
        outcome = self.ok("'x' * (9 << 20)")
        self.assertRegex(outcome.value["text/plain"], r"^<\d+ bytes not shown")
        outcome = self.ok("for i in range(5):\n    display('x' * (3 << 20))\n'end'")
        self.assertEqual([len(d["text/plain"]) > 1000 for d in outcome.displays], [True, True, False, False, False])
        self.assertEqual(outcome.value, {"text/plain": "'end'"})

    def test_of_a_large_bundle_the_small_forms_are_kept(self):
        code = (
            "class Report:\n    def __repr__(self): return 'Report'\n    def _repr_html_(self): return 'x' * (9 << 20)\n"
            "    def _repr_markdown_(self): return '*m*'\n    def _repr_json_(self): return {'rows': 3}\n"
        )
        kept = {"text/plain": "Report", "text/markdown": "*m*", "application/json": {"rows": 3}}
        for end in "Report()", "display(Report())":
            outcome = self.ok(code + end)
            shown = outcome.value if end == "Report()" else outcome.displays[0]
            left_out = shown.pop(LEFT_OUT)
            self.assertEqual((shown, list(left_out)), (kept, ["text/html"]))
            self.assertGreater(left_out["text/html"], 9 << 20)

    def test_what_is_left_out_takes_no_room_from_what_comes_later(self):
        code = "for size in 3, 9, 3, 3, 1:\n    display({'text/plain': str(size), 'a/b': 'x' * (size << 20)}, raw=True)"
        outcome = self.ok(code)
        self.assertEqual([shown["text/plain"] for shown in outcome.displays], ["3", "9", "3", "3", "1"])
        self.assertEqual(["a/b" in shown for shown in outcome.displays], [True, False, True, False, True])

    def test_a_text_that_is_too_large_leaves_the_other_forms(self):
        code = "class A:\n    def __repr__(self): return 'x' * (9 << 20)\n    def _repr_html_(self): return 'h'\nA()"
        value = self.ok(code).value
        self.assertEqual((value["text/html"], list(value[LEFT_OUT])), ("h", ["text/plain"]))
        self.assertRegex(value["text/plain"], r"^<\d+ bytes not shown")

    def test_surrogates(self):
        self.assertEqual(self.ok("display('\\udc80')\n'\\ud800'").value, {"text/plain": "'\\ud800'"})
        self.assertEqual(self.ok("class A:\n    def __repr__(self): return '\\udc80'\nA()").value, {"text/plain": "?"})

    def test_value_is_dropped_when_the_end_raises(self):
        outcome = self.raised("class A:\n    def __repr__(self): raise SystemError\n    def __eq__(self, o): 1/0\ndisplay(A())\n1/0", "ZeroDivisionError")
        self.assertIsNone(outcome.value)

    def test_open_figures_are_shown_at_the_end(self):
        outcome = self.ok(FAKE_PYPLOT + "new(); new()\nprint(1)")
        self.assertEqual([base64.b64decode(d["image/png"]) for d in outcome.displays], [b"png1", b"png2"])

    def test_a_figure_is_shown_once(self):
        outcome = self.ok(FAKE_PYPLOT + "a = new(); b = new(); display(a)\nb")
        self.assertEqual([base64.b64decode(d["image/png"]) for d in outcome.displays], [b"png1"])
        self.assertEqual(base64.b64decode(outcome.value["image/png"]), b"png2")

    def test_figures_of_a_program_that_raises(self):
        outcome = self.raised(FAKE_PYPLOT + "new()\n1/0", "ZeroDivisionError")
        self.assertEqual([base64.b64decode(d["image/png"]) for d in outcome.displays], [b"png1"])

    def test_real_matplotlib(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.figure().gca().bar([1], [2])\nplt.show()\nf, ax = plt.subplots()\nf"
        outcome = self.fresh(code, env={"MPLBACKEND": "Agg"})
        if outcome.how != "ok" and outcome.error["type"] == "ModuleNotFoundError":
            self.skipTest("matplotlib is not installed")
        self.assertEqual((outcome.how, outcome.err), ("ok", ""), outcome.error)
        for shown in outcome.displays + [outcome.value]:
            self.assertEqual(base64.b64decode(shown["image/png"])[:4], b"\x89PNG")
        self.assertEqual(len(outcome.displays), 2)

    def test_plt_show_shows_what_is_open_and_closes_it(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint(plt.get_fignums())\nfrom matplotlib.pyplot import plot, show\nplot([2, 1])\nshow(block=False)\nprint(plt.get_fignums())"
        outcome = self.fresh(code, env={"MPLBACKEND": "Agg"})
        if outcome.how != "ok" and outcome.error["type"] == "ModuleNotFoundError":
            self.skipTest("matplotlib is not installed")
        self.assertEqual((outcome.out, outcome.err), ("[]\n[]\n", ""))
        self.assertEqual(len({shown["image/png"] for shown in outcome.displays}), 2)

    def test_plt_show_of_a_fake(self):
        files = {"matplotlib/__init__.py": "", "matplotlib/pyplot.py": "def show(): raise AssertionError\ndef close(figure): pass\n"}
        code = "import os, sys\nfor name, text in %r.items():\n    os.makedirs(os.path.dirname(name), exist_ok=True)\n    open(name, 'w').write(text)\nimport matplotlib.pyplot as plt\nplt.show(block=True)\nprint('shown', sys.modules['matplotlib.pyplot'] is plt)" % (files,)
        self.assertEqual(self.fresh(code).out, "shown True\n")

    def test_real_pandas(self):
        outcome = self.fresh("import pandas as pd\npd.DataFrame({'a': [1]})")
        if outcome.how != "ok" and outcome.error["type"] == "ModuleNotFoundError":
            self.skipTest("pandas is not installed")
        self.assertIn("<table", outcome.value["text/html"])
        self.assertIn("0  1", outcome.value["text/plain"])


if __name__ == "__main__":
    unittest.main()
