"""Values as MIME bundles: `repr`, the rich reprs that notebooks use, and matplotlib's figures."""

import sys

from harness_channel import encode
from json_forms import jsonable, once

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
    ("application/javascript", "_repr_javascript_"),
    ("application/pdf", "_repr_pdf_"),
)


def bundle(value):
    """The MIME bundle of `value`; a rich repr that fails is left out, as notebooks do."""
    kind = type(value)
    shown = {"text/plain": _text(value)}
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
                try:
                    _add(shown, str(mime), one)
                except Exception:
                    continue
    except Exception:
        pass
    if "image/png" not in shown and is_figure(value):
        shown["image/png"] = _base64(_png(value))
    return shown


def _text(value):
    """The value as text: by IPython's method for that, or else its `repr`."""
    kind = type(value)
    try:
        # Only who has IPython writes such a method.
        if hasattr(kind, "_repr_pretty_") and "IPython" in sys.modules:
            from IPython.lib.pretty import pretty

            return pretty(value)
    except Exception:
        pass
    try:
        return repr(value)
    except Exception as error:
        return "<%s whose repr() raised %s>" % (kind.__name__, type(error).__name__)


def shows_itself(value):
    """Let the value show itself, if it has IPython's method for that. Returns whether it did."""
    method = getattr(type(value), "_ipython_display_", None)
    if method is None:
        return False
    try:
        method(value)
    except Exception:
        return False
    return True


def chosen(shown, include, exclude):
    """The forms of a bundle that the program wants."""
    return {
        mime: one
        for mime, one in shown.items()
        if (not include or mime in include) and (not exclude or mime not in exclude)
    }


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

        try:
            text = json.dumps(one, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            text = json.dumps(jsonable(one, mime, nan_is_none=True))
        one = json.loads(text, object_pairs_hook=once)
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


def close_figure(figure):
    """Close a figure in pyplot, so that it is not shown a second time."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)
