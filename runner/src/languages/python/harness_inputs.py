"""A run's inputs: JSON values that its program finds as globals."""

from harness_channel import _loads


def take(message):
    """Take the inputs out of a run's message: the JSON texts by name. The texts of its tools are left in it."""
    names = message["inputs"]
    texts = message["texts"].split("\0", len(names))
    message["texts"] = texts.pop()
    return dict(zip(names, texts))


def bind(inputs, namespace):
    """Read the texts in `inputs` and put the values into `namespace`. No text is kept beside its value."""
    for name in list(inputs):
        try:
            namespace[name] = _loads(inputs.pop(name))
        except (ValueError, RecursionError) as error:
            raise ValueError("input %s can't be read: %s" % (name, error)) from None
