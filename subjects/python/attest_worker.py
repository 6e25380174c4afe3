"""Starts the worker. attest holds this program itself, and hands it to `python -c FOLDER SUMS TARGET`: the folder of the package attest, and what
its modules were as attest was built, a line each, `sha256 attest/NAME.py`. A module that has become another one is not run, nor is
another file there: a subject may have written it. Compiled modules are neither read nor kept.
"""
import sys

if sys.path[0] == "":
    del sys.path[0]  # the caller's working directory, in which none of what follows is looked for

import hashlib
import importlib.machinery
import importlib.util
import json
import os

HERE = sys.argv[1]
SUMS = dict(reversed(line.split(" ", 1)) for line in sys.argv[2].splitlines())
sys.argv[:3] = [os.path.join(HERE, "attest_worker.py")]


class Changed(Exception):
    pass


class Source(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        try:
            data = self.get_data(path)
        except OSError:  # nor is what is not there any more
            data = b""
        if hashlib.sha256(data).hexdigest() != SUMS[os.path.relpath(path, HERE)]:
            raise Changed(f"{path} is not the file that attest was built with: build attest again, or install it again")
        return self.source_to_code(data, path)


class Sources:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] != "attest":
            return None
        for end in ("/__init__.py", ".py"):
            file = name.replace(".", "/") + end
            if file in SUMS:
                place = os.path.join(HERE, file)
                inside = [os.path.dirname(place)] if end != ".py" else None
                return importlib.util.spec_from_file_location(name, place, loader=Source(name, place), submodule_search_locations=inside)
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Sources)

try:
    if sys.argv[1:2] == ["exported"]:
        from attest.exported_program import main
    else:
        from attest.worker import main
except (Changed, ImportError) as error:  # numpy is not there: the one answer that does not need it
    sentence = str(error) if isinstance(error, Changed) else (
        f"{sys.executable} cannot run Python subjects: {error}; install it there, or name another interpreter with --python")
    sys.stdin.readline()
    print(json.dumps({"protocol": 1, "message": "error", "error": sentence}), flush=True)
    sys.exit(1)

main()
