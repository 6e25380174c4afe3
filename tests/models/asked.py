"""Model files as `attest check` judges them, for scripts over many of them."""
import os
import subprocess
import sys


def check(attest, path, *options):
    """Status of `attest check`, and the first line of a refusal or a failure."""
    done = subprocess.run([attest, "check", path, *options], capture_output=True, text=True, cwd=path.parent,
                          env=os.environ | {"ATTEST_PYTHON": sys.executable, "XDG_STATE_HOME": str(path.parent)})
    told = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return done.returncode, next((line for line in told if line.startswith(("attest: ", "fail ", "error ", "crash "))), "")


class Tally:
    """Files that were put to `check`. `known`: by name, the finding of docs/findings.md that blames a file."""

    def __init__(self, attest, known):
        self.attest, self.known, self.count, self.bad = attest, known, 0, []

    def put(self, name, path, *options, refusal=""):
        """A file that is to be judged and not blamed or, with a `refusal`, to be refused in a sentence that holds it."""
        status, why = check(self.attest, path, *options)
        known = self.known.get(name, "") if status == 1 else ""
        print(f"{name:40} {status} {known or why}", flush=True)
        self.count += 1
        if not (status == 2 and refusal in why if refusal else status == 0 or known):
            self.bad.append(f"{name} ({status} {why})")

    def end(self, of_what):
        """Prints the sum; the exit status."""
        print(f"{of_what}: {self.count - len(self.bad)} of {self.count} as they should be{'; ' if self.bad else ''}{', '.join(self.bad)}")
        return 1 if self.bad else 0
