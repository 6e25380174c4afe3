"""Starts the worker with this folder, and not the caller's working directory, in front of the module path."""
import json
import sys

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
