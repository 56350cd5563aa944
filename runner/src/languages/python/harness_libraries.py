"""Lets the ways of showing that libraries have lead to `display`: nobody looks at a window or a browser here. And lets
asyncio start from a program's top level, whether or not the program awaits there.

Each library gets other functions when it is imported. These can't be settings in the environment, such as a backend of
matplotlib's: processes that the program starts would find the settings, and not what they name.
"""

import functools
import sys
from _frozen_importlib_external import FileLoader as _FileLoader

import harness_show


class Aside:
    """Takes the program's own loop for one that does not run, while another one runs in its place."""

    def __init__(self, own):
        self.own = own

    def __enter__(self):
        self.events = sys.modules["asyncio.events"]
        self.loop = self.events._get_running_loop()
        if self.loop is not None and self.loop is self.own(False):
            self.events._set_running_loop(None)
        else:
            self.loop = None

    def __exit__(self, *error):
        if self.loop is not None:
            self.events._set_running_loop(self.loop)
            self.events.set_event_loop(self.loop)


def beside(function, own):
    """`function`, which runs an event loop, for a program's top level, too."""

    @functools.wraps(function)
    def run(*args, **kwargs):
        with Aside(own):
            return function(*args, **kwargs)

    return run


def replacements(display, own):
    """What replaces what: by modules, functions that give the new attributes of the loaded module. `display(objects,
    raw, include, exclude)` shows objects. `own(True)` is the program's own event loop, if this is its thread;
    `own(False)`, only if there is one already."""

    def runners(module):
        if hasattr(module, "Runner"):
            module.Runner.run = beside(module.Runner.run, own)
        return {"run": beside(module.run, own)}

    def loops(module):
        for name in ("run_forever", "run_until_complete"):
            setattr(module.BaseEventLoop, name, beside(getattr(module.BaseEventLoop, name), own))
        return {}

    def tasks(module):
        plain, events = module.create_task, sys.modules["asyncio.events"]

        @functools.wraps(plain)
        def create_task(*args, **kwargs):
            if events._get_running_loop() is not None or own(True) is None:
                return plain(*args, **kwargs)
            # The program's loop is to run it. That can still come to run: in a session, by a later program.
            events._set_running_loop(own(True))
            try:
                return plain(*args, **kwargs)
            finally:
                events._set_running_loop(None)

        return {"create_task": create_task}

    def pyplot(module):
        def show(*args, **kwargs):
            """Show all open figures to the client, and close them."""
            display(harness_show.open_figures())

        return {"show": show}

    def figure(module):
        def show(self, warn=True):
            """Show the figure to the client."""
            display([self])

        module.Figure.show = show
        return {}

    def ipython(module):
        def show(
            *objs, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, **kw
        ):
            """Show objects to the client. What was shown stays: an update is shown as something new."""
            display(objs, raw, include, exclude)
            if display_id:
                return module.DisplayHandle(None if display_id is True else display_id)

        def publish(data, metadata=None, *, transient=None, **kwargs):
            """Show a MIME bundle to the client."""
            display([data], True)

        def clear_output(wait=False):
            """Do nothing: what was shown stays."""

        show.__name__, publish.__name__ = "display", "publish_display_data"
        return {"display": show, "publish_display_data": publish, "clear_output": clear_output}

    def show_plotly(fig, renderer=None, validate=True, **kwargs):
        """Show a figure to the client."""
        from plotly.io import to_html

        accepted = {name: kwargs[name] for name in ("config", "auto_play", "post_script") if name in kwargs}
        page = to_html(fig, full_html=False, include_plotlyjs="cdn", validate=validate, **accepted)
        display([{"text/plain": "<%s>" % type(fig).__name__, "text/html": page}], True)

    def plotly(module):
        return {"show": show_plotly}

    def plotly_figure(module):
        module.BaseFigure._ipython_display_ = lambda self: show_plotly(self)
        return {}

    def bokeh(module):
        original = module.show

        def show(obj, *args, **kwargs):
            """Show a plot, a widget or a layout to the client. Write it, too, if the program has named a file."""
            from bokeh.embed import file_html
            from bokeh.resources import CDN

            if callable(obj) or getattr(obj, "_is_a_bokeh_application_class", False):
                return original(obj, *args, **kwargs)
            if module.curstate().file is not None:
                module.save(obj)
            display([{"text/plain": repr(obj), "text/html": file_html(obj, CDN)}], True)

        return {"show": show}

    def bokeh_output(module):
        def output_notebook(*args, **kwargs):
            """Do nothing: each page that `show` makes has all that it needs."""

        return {"output_notebook": output_notebook}

    def pillow(module):
        def show(image, title=None, **options):
            """Show an image to the client."""
            display([image])
            return True

        return {"show": show}

    return {
        "asyncio.base_events": loops,
        "asyncio.runners": runners,
        "asyncio.tasks": tasks,
        "matplotlib.pyplot": pyplot,
        "matplotlib.figure": figure,
        "IPython.core.display_functions": ipython,
        "plotly.io._renderers": plotly,
        "plotly.basedatatypes": plotly_figure,
        "bokeh.io.showing": bokeh,
        "bokeh.io.output": bokeh_output,
        "PIL.ImageShow": pillow,
    }


class Finder:
    """Replaces attributes of modules when they are imported."""

    def __init__(self, replacements):
        self.replacements = replacements
        sys.meta_path.insert(0, self)
        for name in replacements:
            if name in sys.modules:
                self.replace(sys.modules[name], preloaded=True)

    def replace(self, module, preloaded=False):
        """Give a module its new attributes. Of one that was `preloaded`, others may have taken the old ones."""
        try:
            new = self.replacements[module.__name__](module)
        except Exception:
            return  # It is another library with this name, or a version that works otherwise.
        old = {name: module.__dict__.get(name) for name in new}
        package = module.__name__.partition(".")[0]
        for name, function in new.items():
            function.__module__, function.__qualname__ = module.__name__, name
            setattr(module, name, function)
        for key, other in list(sys.modules.items()) if preloaded else ():
            if key.partition(".")[0] == package and other is not module:
                for name, function in new.items():
                    if old[name] is not None and getattr(other, "__dict__", {}).get(name) is old[name]:
                        setattr(other, name, function)

    def find_spec(self, name, path=None, target=None):
        if name not in self.replacements:
            return None
        finders = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        # Only a module in a file has a loader of its own; other loaders may have more than one module.
        if spec is not None and isinstance(spec.loader, _FileLoader):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.replace(module)

            spec.loader.exec_module = exec_module
        return spec
