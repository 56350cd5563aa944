"""Values as MIME bundles: `repr`, the rich reprs that notebooks use, and matplotlib's figures."""

import sys
from _frozen_importlib_external import FileLoader as _FileLoader

from harness_channel import encode

LARGEST_BUNDLES = 8 << 20
# A form of its own in a bundle: the bytes of each form that was left out, because it was too large.
LEFT_OUT = "application/vnd.thermae.left-out+json"
TEXT_ONLY = frozenset((str, int, float, bool, complex, bytes, list, tuple, dict, set, frozenset, range, type))
REPRS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"),
)


def bundle(value):
    """The MIME bundle of `value`; a rich repr that fails is left out, as notebooks do."""
    kind = type(value)
    try:
        shown = {"text/plain": repr(value)}
    except Exception as error:
        shown = {"text/plain": "<%s whose repr() raised %s>" % (kind.__name__, type(error).__name__)}
    if kind in TEXT_ONLY:
        return shown
    for mime, name in REPRS:
        try:
            method = getattr(kind, name, None)
            if method is not None:
                _add(shown, mime, method(value))
        except Exception:
            continue
    try:
        method = getattr(kind, "_repr_mimebundle_", None)
        if method is not None:
            data = method(value, include=None, exclude=None)
            for mime, one in (data[0] if isinstance(data, tuple) else data or {}).items():
                _add(shown, str(mime), one)
    except Exception:
        pass
    if "image/png" not in shown and is_figure(value):
        shown["image/png"] = _base64(_png(value))
    return shown


def as_bundle(data):
    """A bundle that the program has made itself (`display(..., raw=True)`)."""
    shown = {}
    for mime, one in dict(data).items():
        _add(shown, str(mime), one)
    return shown


def fitting(shown, most):
    """The bundle without its largest forms, so that the others have at most `most` bytes. It says what is left out; a
    note takes the place of the text."""
    sizes = {mime: len(encode({mime: one})) for mime, one in shown.items()}
    left_out = {}
    for mime in sorted(sizes, key=lambda mime: (mime != "text/plain", sizes[mime])):
        if sizes[mime] > most:
            left_out[mime] = sizes[mime]
        else:
            most -= sizes[mime]
    kept = {mime: one for mime, one in shown.items() if mime not in left_out}
    if "text/plain" in left_out:
        kept["text/plain"] = "<%d bytes not shown: more than %d in one run>" % (sizes["text/plain"], LARGEST_BUNDLES)
    return dict(kept, **{LEFT_OUT: left_out})


def _add(shown, mime, one):
    if isinstance(one, tuple):  # (data, metadata)
        one = one[0]
    if one is None:
        return
    if isinstance(one, (bytes, bytearray)):
        one = _base64(one)
    elif not isinstance(one, str):
        import json

        one = json.loads(json.dumps(one, allow_nan=False))
    shown[mime] = one


def _base64(data):
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def _png(figure):
    from io import BytesIO

    out = BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def open_figures():
    """The figures that pyplot holds, in the order of their numbers; none if the program has never imported pyplot."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None or "matplotlib.pyplot" not in sys.modules:
        return []
    return [manager.canvas.figure for manager in helpers.Gcf.get_all_fig_managers()]


class PyplotFinder:
    """Gives pyplot another `show` when it is imported: nobody looks at a window here. This can't be a backend of
    matplotlib's: its name would be in the environment, and processes that the program starts would not find it."""

    def __init__(self, show):
        self.show = show
        sys.meta_path.insert(0, self)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].show = show

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        # Only a module in a file has a loader of its own; other loaders may have more than one module.
        if spec is not None and isinstance(spec.loader, _FileLoader):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                module.show = self.show

            spec.loader.exec_module = exec_module
        return spec


def close_figure(figure):
    """Close a figure in pyplot, so that it is not shown a second time."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
