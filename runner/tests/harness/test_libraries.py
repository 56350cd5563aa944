"""The ways of showing that libraries have. Libraries that are not installed are left out."""

import unittest

from support import Case

PNG = "image/png"
HTML = "text/html"
CASES = {
    "IPython's display": ("from IPython.display import HTML, display\ndisplay(HTML('<b>x</b>'))", HTML),
    "as an attribute": ("import IPython\nIPython.display.display(IPython.display.Markdown('# x'))", "text/markdown"),
    "of the module inside": ("from IPython.core.display_functions import display\ndisplay({'a/b': 'x'}, raw=True)", "a/b"),
    "display_html": ("from IPython.display import display_html\ndisplay_html('<b>x</b>', raw=True)", HTML),
    "display_png": ("from IPython.display import display_png\ndisplay_png(b'x', raw=True)", PNG),
    "display_svg": ("from IPython.display import SVG, display_svg\ndisplay_svg(SVG('<svg/>'))", "image/svg+xml"),
    "Javascript": ("from IPython.display import Javascript, display\ndisplay(Javascript('1'))", "application/javascript"),
    "JSON": ("from IPython.display import JSON, display\ndisplay(JSON({'a': 1}))", "application/json"),
    "publish_display_data": ("from IPython.display import publish_display_data\npublish_display_data({'a/b': 'x'})", "a/b"),
    "an update": ("from IPython.display import HTML, display\ndisplay(1, display_id=True).update(HTML('x'))", HTML),
    "pandas": ("from IPython.display import display\nimport pandas\ndisplay(pandas.DataFrame({'a': [1]}))", HTML),
    "Styler": ("from IPython.display import display\nimport jinja2, pandas\ndisplay(pandas.DataFrame({'a': [1]}).style)", HTML),
    "Pillow's show": ("import PIL.Image\nPIL.Image.new('RGB', (4, 4)).show()", PNG),
    "Pillow": ("import PIL.Image\ndisplay(PIL.Image.new('RGB', (4, 4)))", PNG),
    "a figure's show": ("import matplotlib.pyplot as plt\nfigure, _ = plt.subplots()\nfigure.show()", PNG),
    "plotly's show": ("import plotly.graph_objects as go\ngo.Figure(go.Bar(y=[1])).show()", HTML),
    "plotly's io": ("import plotly.io\nplotly.io.show({'data': []})", HTML),
    "plotly by display": ("import plotly.graph_objects as go\ndisplay(go.Figure())", HTML),
    "altair's display": ("import IPython, altair\naltair.Chart({'values': []}).mark_bar().display()", HTML),
    "altair's show": ("import IPython, altair\naltair.Chart({'values': []}).mark_bar().show()", HTML),
    "bokeh": ("from bokeh.plotting import figure, show\np = figure()\np.line([1], [1])\nshow(p)", HTML),
    "bokeh in a notebook": (
        "from bokeh.io import output_notebook, show\nfrom bokeh.plotting import figure\n"
        "output_notebook()\np = figure()\np.line([1], [1])\nshow(p)",
        HTML,
    ),
}


class Libraries(Case):
    def test_every_way_of_showing_is_a_display(self):
        for name, (code, mime) in CASES.items():
            with self.subTest(name):
                outcome = self.fresh(code, env={"MPLBACKEND": "Agg", "MPLCONFIGDIR": "."})
                if outcome.how != "ok" and outcome.error["type"] == "ModuleNotFoundError":
                    continue
                self.assertEqual((outcome.how, outcome.out), ("ok", ""), outcome.error)
                self.assertIn(mime, outcome.displays[-1])
                self.assertEqual(len(outcome.displays), 2 if name == "an update" else 1)

    def test_a_value_that_shows_itself(self):
        code = "class A:\n    def __repr__(self): return 'A'\n    def _ipython_display_(self): display({'text/html': 'x'}, raw=True)\n"
        for end, value in (("display(A())", None), ("A()", {"text/plain": "A"})):
            outcome = self.ok(code + end)
            self.assertEqual((outcome.displays, outcome.value), ([{"text/html": "x"}], value))

    def test_a_value_that_fails_to_show_itself_is_shown(self):
        outcome = self.ok("class A:\n    def __repr__(self): return 'A'\n    def _ipython_display_(self): 1 / 0\ndisplay(A())")
        self.assertEqual(outcome.displays, [{"text/plain": "A"}])

    def test_text_is_what_IPython_prints(self):
        kinds = "class P:\n    def _repr_pretty_(self, p, cycle): p.text('pretty')\n    def __repr__(self): return 'plain'\n"
        kinds += "class Q(P):\n    def _repr_pretty_(self, p, cycle): 1 / 0\n"
        for code, text in (("P()", "plain"), ("import IPython\nP()", "pretty"), ("import IPython\nQ()", "plain")):
            outcome = self.fresh(kinds + code)
            if outcome.how == "ok":
                self.assertEqual(outcome.value, {"text/plain": text})
            else:
                self.assertEqual(outcome.error["type"], "ModuleNotFoundError")

    def test_forms_can_be_chosen(self):
        code = "class A:\n    def __repr__(self): return 'r'\n    def _repr_html_(self): return 'h'\n"
        code += "display(A(), include=['text/html'])\ndisplay(A(), exclude=['text/html'])\ndisplay(A(), include=['a/b'])"
        self.assertEqual(self.ok(code).displays, [{"text/html": "h"}, {"text/plain": "r"}])

    def test_a_library_of_another_kind_with_the_same_name_is_left_alone(self):
        code = "import os, sys\nos.makedirs('PIL')\nopen('PIL/__init__.py', 'w').close()\nopen('PIL/ImageShow.py', 'w').write('x = 1')\n"
        code += "import PIL.ImageShow\nprint(PIL.ImageShow.x)"
        self.assertEqual(self.ok(code).out, "1\n")


if __name__ == "__main__":
    unittest.main()
