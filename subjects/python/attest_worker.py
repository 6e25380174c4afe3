"""Starts the worker with this folder, and not the caller's working directory, in front of the module path.

What was compiled before is neither read nor kept here: a subject may have written it, and no other than its own would be asked for it.
"""
import importlib.machinery
import json
import sys


class Source(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def hook(folder):
    """Finds modules of this folder, and of those in it, by their sources alone."""
    if folder != HERE and not folder.startswith(HERE + "/attest"):
        raise ImportError
    return importlib.machinery.FileFinder(folder, (Source, [".py"]))


HERE = sys.path[0]
sys.path_hooks.insert(0, hook)
sys.path_importer_cache.pop(HERE, None)

try:
    if sys.argv[1:2] == ["exported"]:
        from attest.exported_program import main
    else:
        from attest.worker import main
except ImportError as error:  # numpy is not there: the one answer that does not need it
    sys.stdin.readline()
    print(json.dumps({"protocol": 1, "message": "error", "error": f"{sys.executable} cannot run Python subjects: {error}; "
                      "install it there, or name another interpreter with --python"}), flush=True)
    sys.exit(1)

main()
