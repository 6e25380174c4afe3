"""The sentences of ONNX Runtime's errors."""

import re


def objection(text):
    """The sentence of an error that says what it objects to, in one line: no status, node or C++ signature."""
    text = " ".join(text.split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    text = text.rpartition("Status Message: ")[2]
    checked, _, said = text.rpartition(" was false.")
    return said.strip() or checked.rpartition(" ")[2] + " was false."
