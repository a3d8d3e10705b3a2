"""A copy of the agent that only root can write, and the sudoers line that lets one user start it."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from labkit.agent.trust import open_to_others
from labkit.errors import CapabilityMissingError, LabError, WorkloadError

PREFIX = Path("/usr/local/lib/labkit-agent")
SUDOERS = Path("/etc/sudoers.d/labkit-agent")
PACKAGES = ("labkit", "msgspec", "pyroute2")
"""What the agent imports besides the standard library; a test looks at the agent's modules."""
AGENT = ("-I", "-m", "labkit.agent")
LIMIT_S = 60


def sudoers_line(user: str, prefix: Path = PREFIX) -> str:
    """The one rule: `user` may start this copy as root, with these words and no others."""
    return f"{user} ALL=(root) NOPASSWD: {prefix}/bin/python {' '.join(AGENT)}"


def installed_command(prefix: Path = PREFIX) -> list[str] | None:
    """How the root-owned copy is started; None where there is none."""
    python = prefix / "bin/python"
    return [str(python), *AGENT] if python.exists() else None


def check_user(user: str) -> None:
    """Raise a WorkloadError unless there is such a user: sudo would read ``ALL`` or ``%staff`` as many."""
    if user not in {each.pw_name for each in pwd.getpwall()}:
        raise WorkloadError(f"install-agent: there is no user {user!r} here; name one with --user")


def install(user: str, *, prefix: Path = PREFIX, sudoers: Path = SUDOERS) -> None:
    """Make the copy below `prefix` and write the rule for `user` to `sudoers`; an older copy is replaced.

    Raises
    ------
    CapabilityMissingError
        Not root, or the interpreter can be written by others.
    WorkloadError
        There is no such user.
    LabError
        A file could not be written, or sudo does not accept the rule.
    """
    if os.geteuid() != 0:
        raise CapabilityMissingError("install-agent writes root's folders: run it with sudo")
    check_user(user)
    base = Path(os.path.realpath(sys.executable))
    if found := open_to_others(base):
        raise CapabilityMissingError(
            f"install-agent: {found[0]}, the interpreter's place, can be written by others; set labkit up "
            f"with the system's Python: make PYTHON=/usr/bin/python3 setup"
        )
    os.umask(0o022)
    try:
        _copy(base, prefix)
        _write_rule(sudoers_line(user, prefix), sudoers)
    except OSError as failed:
        raise LabError(f"install-agent: {failed.filename}: {failed.strerror}", errno=failed.errno) from failed


def _copy(base: Path, prefix: Path) -> None:
    shutil.rmtree(prefix, ignore_errors=True)
    subprocess.run([base, "-I", "-m", "venv", "--without-pip", prefix], check=True, timeout=LIMIT_S)
    major, minor = sys.version_info[:2]
    site = prefix / f"lib/python{major}.{minor}/site-packages"
    for name in PACKAGES:
        for source in _folders(name):
            leave = shutil.ignore_patterns("__pycache__", "native")
            shutil.copytree(source, site / name, ignore=leave, dirs_exist_ok=True)
    for path in [prefix, *prefix.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o755)


def _folders(name: str) -> list[Path]:
    """Where a package lies; an editable one has its sources and its compiled part in two places."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LabError(f"install-agent: package {name} is not installed; run `make setup`")
    return [Path(place) for place in spec.submodule_search_locations if Path(place).is_dir()]


def _write_rule(line: str, sudoers: Path) -> None:
    draft = sudoers.with_name(f".{sudoers.name}.draft")
    draft.write_text(f"# labkit's agent, and nothing else, as root\n{line}\n")
    draft.chmod(0o440)
    if visudo := shutil.which("visudo", path="/usr/sbin:/sbin:/usr/bin"):
        checked = subprocess.run(
            [visudo, "-cf", draft], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        if checked.returncode:
            draft.unlink()
            raise LabError(f"install-agent: sudo does not accept the rule: {checked.stderr.strip()}")
    draft.replace(sudoers)
