"""Builds the wheel (PEP 517, PEP 660) with the standard library alone.

The same sources give the same bytes: names are sorted and times are fixed.
"""

import base64
import hashlib
import os
import re
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
FIXED = (1980, 1, 1, 0, 0, 0)


def _project():
    text = open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8").read()
    get = lambda key: re.search(rf'^{key} = "([^"]*)"$', text, re.M).group(1)
    return get("name"), get("version"), get("description"), get("requires-python")


def _metadata():
    name, version, summary, python = _project()
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\nRequires-Python: {python}\n"


def _write_wheel(folder, files):
    name, version, _, _ = _project()
    info = f"{name}-{version}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tallystick\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/entry_points.txt"] = b"[pytest11]\ntallystick = tallystick.pytest_plugin\n"
    record = []
    for path in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[path]).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(files[path])}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = "".join(record).encode()
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w", zipfile.ZIP_DEFLATED) as z:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, FIXED)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            z.writestr(entry, files[path])
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {}
    package = os.path.join(HERE, "tallystick")
    for name in os.listdir(package):
        if name.endswith(".py") or name == "py.typed":
            with open(os.path.join(package, name), "rb") as f:
                files[f"tallystick/{name}"] = f.read()
    return _write_wheel(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {"tallystick.pth": (HERE + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    raise NotImplementedError("there is no source archive: take the repository")
