"""Starts the worker with this folder, and not the caller's working directory, in front of the module path."""
from attest.worker import main

main()
