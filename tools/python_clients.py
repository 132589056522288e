"""Makes `.tools/python`, an interpreter that has the packages of tools/python-clients.txt. Quick when it is there."""

import hashlib
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
REQUIREMENTS = ROOT / "tools" / "python-clients.txt"
INTERPRETER = TOOLS / "python"


def pip_install(python, *more):
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *more]
    return subprocess.run([*command, "--requirement", str(REQUIREMENTS)], stdout=sys.stderr).returncode == 0


def in_a_venv():
    """A virtual environment's interpreter; None where Python came without venv or ensurepip."""
    folder = TOOLS / "venv"
    shutil.rmtree(folder, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True)
    python = folder / "bin" / "python"
    if made.returncode != 0 or not python.exists() or not pip_install(python):
        return None
    return f'exec "{python}" "$@"'


def in_a_folder():
    folder = TOOLS / "site-packages"
    shutil.rmtree(folder, ignore_errors=True)
    if not pip_install(sys.executable, "--target", str(folder)):
        sys.exit("the Python Kafka clients could not be installed with pip")
    return f'PYTHONPATH="{folder}" exec "{sys.executable}" "$@"'


def main():
    key = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.executable.encode() + sys.version.encode()).hexdigest()
    stamp = f"# {key}"
    if INTERPRETER.exists() and stamp in INTERPRETER.read_text():
        return
    TOOLS.mkdir(exist_ok=True)
    print("Installing the Python Kafka clients for the tests", file=sys.stderr)
    run = in_a_venv() or in_a_folder()
    INTERPRETER.write_text(f"#!/bin/sh\n{stamp}\n{run}\n")
    INTERPRETER.chmod(0o755)


main()
