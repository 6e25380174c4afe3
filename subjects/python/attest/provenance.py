"""The origin of what a worker answers, for reports: the line of a subject's function, and versions of what is loaded."""
import inspect
import platform
import sys

MOST_LIBRARIES = 24


def code_of(subject):
    """None where it is no plain function."""
    return getattr(inspect.unwrap(subject.function), "__code__", None)


def line(subject):
    code = code_of(subject)
    return code.co_firstlineno if code else 1


def libraries():
    """`python 3.11.2, numpy 2.3.4`: packages that say which version they are, but for Python's own."""
    own = {"attest", *getattr(sys, "stdlib_module_names", ())}
    versions = [(name, vars(module).get("__version__")) for name, module in sorted(sys.modules.items())
                if "." not in name and not name.startswith("_") and name not in own and module is not None]
    said = [f"{name} {version}" for name, version in versions if isinstance(version, str)]
    return ", ".join([f"python {platform.python_version()}", *said[:MOST_LIBRARIES]])


def of(subject, loaded):
    """The keys of a description (docs/worker.md) that say it. `loaded`: libraries()."""
    return {"libraries": loaded, **({"line": line(subject)} if hasattr(subject, "function") else {})}
