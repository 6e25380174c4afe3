"""`python -m attest.listing FILE`: the subjects that a script declares, as one line of JSON: [{"name", "ops", "line"}], or
{"unsupported": "why"}, or {"error": "why"}. In a process of its own, since a script may do anything when it is imported."""
import json
import os
import sys

from .function import REGISTRY
from .provenance import code_of, line
from .worker import LoadError, import_script


def listed(path):
    try:
        import_script(path)
    except LoadError as error:
        return {"unsupported" if error.unsupported else "error": str(error)}
    return [{"name": subject.name, "ops": subject.describe()["ops"], "line": line(subject)}
            for subject in REGISTRY if is_of(subject, path)]


def is_of(subject, path):
    """Not of another script that this one imports."""
    code = code_of(subject)
    return code is None or os.path.realpath(code.co_filename) == os.path.realpath(path)


if __name__ == "__main__":
    answer = os.dup(1)
    os.dup2(2, 1)  # the script's own output is no answer
    os.write(answer, json.dumps(listed(sys.argv[1])).encode())
