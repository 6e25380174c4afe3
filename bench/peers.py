"""The private environments of what attest is measured beside."""
import subprocess
import sys
import venv


def private_python(who, packages, folder, requirements):
    """The interpreter of the environment in `folder`, made anew when the file `requirements` changes. Says so as `who`."""
    mark, python = folder / "requirements.txt", folder / "bin/python"
    if not mark.exists() or mark.read_text() != requirements.read_text():
        print(f"{who}: installing {packages} into", folder, file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary",
                        ":all:", "-r", requirements], check=True)
        mark.write_text(requirements.read_text())
    return python
