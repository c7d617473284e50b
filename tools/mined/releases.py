"""Makes a git history of each of several Python packages, with a commit for each of
its source releases and what the release adds to the package's change log as message.

releases.py DIR NEWEST PACKAGE...: the folder to work in (downloads go to DIR/sdists,
histories to DIR/repos), and how many releases of each package are taken at most, the
newest. What is there already is not downloaded again. DIR/releases.json lists packages,
versions and the SHA-256 of each archive.

Versions are those that pip lists, and archives come from the index that pip uses. They
are downloaded as they are: "pip download" would run the setup.py of each, which takes
longer than everything else and fails for old ones.

Commits have the times of the files in the archive and one author, so the same
archives make the same commits. A release whose change log says nothing new has a
message that is too short to be a task.
"""

import concurrent.futures
import hashlib
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile

folder, newest, packages = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
LOG = re.compile(r"(?i)^(change|history|news|release|version|whatsnew)[\w.-]*$")
MADE = re.compile(r"(?i)(^|/)([^/]*\.egg-info|PKG-INFO|__pycache__)(/|$)|\.(pyc|so|pyd)$")
AUTHOR = {"GIT_AUTHOR_NAME": "releases", "GIT_AUTHOR_EMAIL": "releases@localhost", "GIT_COMMITTER_NAME": "releases", "GIT_COMMITTER_EMAIL": "releases@localhost"}


def index():
    """The address of the index that pip uses."""
    said = subprocess.run([*PIP, "config", "get", "global.index-url"], capture_output=True, text=True).stdout.strip()
    if not said:
        from pip._internal.models.index import PyPI

        said = PyPI.simple_url
    return os.environ.get("PIP_INDEX_URL", said).rstrip("/")


def fetch(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.read()


def versions(package):
    """The final releases, oldest first, as pip lists them."""
    out = subprocess.run([*PIP, "index", "versions", package], capture_output=True, text=True, check=True).stdout
    listed = re.search(r"Available versions: (.*)", out).group(1).split(", ")
    return list(reversed(listed[:newest]))


def archives_of(package):
    """Address and SHA-256 of the source archive of each version."""
    page = f"{index()}/{package}/"
    found = {}
    for href in re.findall(r'<a\s[^>]*?href="([^"]+)"', fetch(page, Accept="text/html").decode()):
        url, _, fragment = urllib.parse.urljoin(page, html.unescape(href)).partition("#")
        name = url.rpartition("/")[2]
        match = re.fullmatch(r"(?i)[\w.-]+?-(\d[\w.!+]*)(\.tar\.gz|\.zip|\.tar\.bz2)", name)
        if match and fragment.startswith("sha256="):
            found[match.group(1)] = (url, fragment.removeprefix("sha256="))
    return found


def download(package, version, url, sha256):
    """The source archive of a release."""
    into = folder / "sdists" / package / url.rpartition("/")[2]
    if not into.is_file() or hashlib.sha256(into.read_bytes()).hexdigest() != sha256:
        data = fetch(url)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise OSError(f"{url.rpartition('/')[2]} is not what the index says")
        into.parent.mkdir(parents=True, exist_ok=True)
        into.write_bytes(data)
    return into


def unpack(archive, into):
    """Files of an archive without its top folder and without what builds add; the newest time among them."""
    latest = 0
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as z:
            for m in z.infolist():
                if not m.is_dir():
                    latest = max(latest, put(into, m.filename, z.read(m), False, 315532800))
        return latest
    with tarfile.open(archive) as t:
        for m in t:
            if m.isfile():
                latest = max(latest, put(into, m.name, t.extractfile(m).read(), bool(m.mode & 0o100), int(m.mtime)))
    return latest


def put(into, name, data, executable, when):
    name = name.partition("/")[2]
    parts = pathlib.PurePosixPath(name).parts
    if not name or MADE.search(name) or ".." in parts or ".git" in parts:
        return 0
    to = into / name
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(data)
    to.chmod(0o755 if executable else 0o644)
    return when


def log_lines(tree):
    """The lines of a package's change logs, or of its README, where some have theirs."""
    lines = []
    for where in (tree, tree / "docs", tree / "doc", tree / "doc" / "source", tree / "docs" / "source"):
        for f in sorted(where.iterdir()) if where.is_dir() else []:
            if f.is_file() and LOG.match(f.name) and not f.name.endswith(".py"):
                lines += f.read_text("utf-8", "replace").splitlines()
    for f in [] if lines else sorted(tree.glob("README*")):
        lines += f.read_text("utf-8", "replace").splitlines()
    return lines


def message(package, version, before, now):
    """What a release adds to the change logs. Without, it is too short for a task."""
    known = set(before)
    added = "\n".join(line for line in now if line not in known).strip()
    return f"{package} {version}\n\n{added[:8000]}\n" if before and len(added) > 10 else f"{version}\n"


def history(package):
    """Makes the repository of a package and says what is in it."""
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        known = archives_of(package)
        wanted = [v for v in versions(package) if v in known]
        archives = list(pool.map(lambda v: download(package, v, *known[v]), wanted))
    repo = folder / "repos" / package
    shutil.rmtree(repo, ignore_errors=True)
    repo.mkdir(parents=True)

    def git(*args, **env):
        subprocess.run(["git", "-c", "core.autocrlf=false", "-c", "core.fileMode=true", "-C", str(repo), *args], check=True, capture_output=True, env={**os.environ, **AUTHOR, **env})

    git("init", "-q", "-b", "main")
    releases, lines = [], []
    for version, archive in zip(wanted, archives):
        for old in repo.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        when = unpack(archive, repo)
        now = log_lines(repo)
        at = f"@{max(when, 315532800)} +0000"
        git("add", "--all", "--force")
        git("commit", "-q", "--allow-empty", "--no-gpg-sign", "-m", message(package, version, lines, now), GIT_AUTHOR_DATE=at, GIT_COMMITTER_DATE=at)
        releases.append({"version": version, "file": archive.name, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()})
        lines = now
    return {"package": package, "releases": releases}


made = []
for package in packages:
    try:
        made.append(history(package))
        print(f"{package}: {len(made[-1]['releases'])} releases", flush=True)
    except (subprocess.SubprocessError, AttributeError, OSError, tarfile.TarError) as error:
        print(f"{package}: left out: {error}", flush=True)
(folder / "releases.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
sys.exit(0 if made else 1)
