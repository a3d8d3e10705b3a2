"""What tests share: which of them this machine can run, and one copy of the checkout, set up once."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
IN_CI = os.environ.get("CI") == "true"
CHROMIUM = "/usr/bin/chromium"


def missing_browser() -> str | None:
    return None if os.access(CHROMIUM, os.X_OK) else "no chromium: make system-packages"


@functools.cache
def missing_namespaces() -> str | None:
    """Why no private namespaces can be made here, found out by making some."""
    if shutil.which("unshare") is None:
        return "no unshare (util-linux): make system-packages"
    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", "true"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if tried.returncode == 0:
        return None
    return (
        f"user namespaces are forbidden ({tried.stderr.strip()}): sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns"
    )


def missing_user() -> str | None:
    if os.geteuid() != 0:
        return "only root can make a throw-away user: sudo make test"
    absent = [tool for tool in ("runuser", "useradd", "userdel") if shutil.which(tool) is None]
    return f"no {absent[0]} (util-linux, passwd): make system-packages" if absent else None


def missing_vm() -> str | None:
    from labkit.guest.missing import missing

    if lacking := missing().programs:
        return f"no {lacking[0]}: make system-packages"
    return missing_namespaces()  # a guest's QEMU lives in one of its own


NEEDS = {
    "browser": missing_browser,
    "network": missing_namespaces,
    "user": missing_user,
    "vm": missing_vm,
}


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, missing in NEEDS.items():
        if item.get_closest_marker(marker) and (reason := missing()):
            pytest.skip(reason)


def fail_if_skipped_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI nothing may be left out silently: a skip there is a failure that keeps the skip's reason."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.longrepr = f"left out, which CI does not allow: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if any(item.get_closest_marker(marker) for marker in (*NEEDS, "registry")):
        fail_if_skipped_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    report = yield
    fail_if_skipped_in_ci(report)
    return report


class Checkout(NamedTuple):
    """A copy of this checkout that was set up by Debian's Python, readable by every user."""

    folder: Path
    home: Path
    scratch: Path

    def make(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run make there with `home` and `scratch` as the only places outside that it is told of."""
        return subprocess.run(
            ["make", "PYTHON=/usr/bin/python3", *words],
            cwd=self.folder,
            env=self.environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=540,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        places = {"HOME": str(self.home), "TMPDIR": str(self.scratch), "UV_CACHE_DIR": uv_cache()}
        # pip asks every rustc on the PATH for its version, and rustup's answers by writing into the home
        places["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        left_out = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "XDG_CACHE_HOME"}
        return {name: value for name, value in os.environ.items() if name not in left_out} | places


def uv_cache() -> str:
    """Folder of the cache that set-up fills anyway, so that the copy downloads nothing again."""
    if chosen := os.environ.get("UV_CACHE_DIR"):
        return chosen
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv")


def copy_checkout(target: Path) -> None:
    """Copy what a commit of the work tree as it stands would hold, with modes that everybody can read."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(
        [*command, "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            copied = target / name
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copied)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


@pytest.fixture(scope="session")
def checkout() -> Iterator[Checkout]:
    """One set-up for the whole session, below /tmp: pytest's own folders are closed to other users."""
    place = Path(tempfile.mkdtemp(prefix="labkit-checkout-", dir="/tmp"))
    try:
        place.chmod(0o755)
        made = Checkout(place / "labkit", place / "home", place / "scratch")
        for folder in made:
            folder.mkdir()
        copy_checkout(made.folder)
        done = made.make("setup")
        assert done.returncode == 0, done.stdout + done.stderr
        yield made
    finally:
        shutil.rmtree(place, ignore_errors=True)
