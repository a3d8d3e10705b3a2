"""`make setup`: one line when something is missing, nothing outside the checkout, and never a stale build."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = "git g++ python3 sed grep cat id mkdir find sort cksum make rm".split()


def make(folder: Path, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/usr/bin/make", "--no-print-directory", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout that was never set up, as far as the Makefile looks."""
    folder = tmp_path / "bare"
    (folder / "labkit").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def path_with(folder: Path, *tools: str) -> str:
    folder.mkdir()
    for tool in tools:
        (folder / tool).symlink_to(f"/usr/bin/{tool}")
    return str(folder)


def refused_in_one_line(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert done.returncode != 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert not (folder / ".venv").exists()
    return lines[0]


@pytest.mark.parametrize("missing", ["git", "g++"])
def test_missing_tool_is_one_line_with_the_command(bare: Path, tmp_path: Path, missing: str) -> None:
    path = path_with(tmp_path / "bin", *(tool for tool in TOOLS if tool != missing))
    line = refused_in_one_line(make(bare, "setup", env={"PATH": path, "HOME": str(tmp_path)}), bare)
    assert f"sudo apt-get install -y {missing}." in line


@pytest.mark.parametrize(
    ("refuses", "package"), [("ensurepip", "python3-venv"), ("Python.h", "python3-dev")], ids=["venv", "dev"]
)
def test_missing_part_of_python_is_one_line_with_the_command(
    bare: Path, tmp_path: Path, refuses: str, package: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *{refuses}*) exit 1;; esac\nexec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    line = refused_in_one_line(make(bare, "setup", f"PYTHON={python}", env=dict(os.environ)), bare)
    assert f"sudo apt-get install -y {package}." in line


def test_absent_python_names_its_three_packages(bare: Path) -> None:
    done = make(bare, "setup", "PYTHON=/nonexistent/python", env=dict(os.environ))
    line = refused_in_one_line(done, bare)
    assert "sudo apt-get install -y python3 python3-venv python3-dev." in line


def test_python_that_is_too_old_is_named(bare: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$*" in *version_info*) exit 1;; esac\nexec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    line = refused_in_one_line(make(bare, "setup", f"PYTHON={python}", env=dict(os.environ)), bare)
    assert f"{python} is older than Python 3.11" in line


@pytest.mark.user
def test_checkout_of_another_user_is_refused_in_one_line(checkout) -> None:
    done = subprocess.run(
        ["runuser", "-u", "nobody", "--", "/usr/bin/make", "-B", "setup", "PYTHON=/usr/bin/python3"],
        cwd=checkout.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "cannot be written by nobody" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("home", [None, "/proc"], ids=["no home", "home that cannot be written"])
def test_without_a_home_the_cache_stays_inside_the_checkout(bare: Path, home: str | None) -> None:
    env = {"PATH": os.environ["PATH"]} | ({"HOME": home} if home else {})
    done = make(bare, "--eval=where: ; @echo '$(UV_CACHE)'", "where", env=env)
    assert done.stdout.strip() == str(bare / "build/uv-cache")


@pytest.mark.timeout(600)
class TestInACopy:
    """The copy is set up once; each test spoils it in one way and sets it up again."""

    def test_setup_wrote_nothing_into_the_home_or_the_temporary_folder(self, checkout) -> None:
        assert list(checkout.home.iterdir()) == []
        assert list(checkout.scratch.iterdir()) == []

    def test_second_setup_does_nothing(self, checkout) -> None:
        assert checkout.make("-q", "setup").returncode == 0

    def test_changed_native_source_is_built_again(self, checkout) -> None:
        before = self.native_module(checkout).stat().st_mtime_ns
        source = checkout.folder / "labkit/native/module.cpp"
        source.write_text(source.read_text() + "\nstatic_assert(true);\n")
        self.set_up(checkout)
        assert self.native_module(checkout).stat().st_mtime_ns > before

    def test_new_module_is_found_without_another_setup(self, checkout) -> None:
        added = checkout.folder / "labkit/added_later.py"
        added.write_text("WORD = 'found'\n")
        try:
            assert self.say(checkout, "import labkit.added_later as a; print(a.WORD)") == "found"
        finally:
            added.unlink()

    def test_module_that_became_a_room_is_found_after_setup(self, checkout) -> None:
        module, room = checkout.folder / "labkit/units.py", checkout.folder / "labkit/units/__init__.py"
        room.parent.mkdir()
        module.rename(room)
        self.set_up(checkout)
        assert self.say(checkout, "import labkit.units as u; print(u.__file__)") == str(room)
        room.rename(module)
        shutil.rmtree(room.parent)
        self.set_up(checkout)
        assert self.say(checkout, "import labkit.units as u; print(u.__file__)") == str(module)

    def test_interrupted_setup_starts_over(self, checkout) -> None:
        shutil.rmtree(next((checkout.folder / ".venv/lib").glob("*/site-packages")) / "msgspec")
        (checkout.folder / ".venv/bin/uv").unlink()
        (checkout.folder / ".venv/.deps").unlink()
        self.set_up(checkout)
        assert self.say(checkout, "import msgspec, labkit._native; print('whole')") == "whole"

    def test_checkout_at_another_place_is_set_up_anew(self, checkout) -> None:
        moved = checkout._replace(folder=checkout.folder.with_name("moved"))
        # linked files stand for a moved tree: set-up makes each file that it writes anew
        shutil.copytree(checkout.folder, moved.folder, copy_function=os.link, symlinks=True)
        self.set_up(moved)
        assert self.say(moved, "import labkit; print(labkit.__file__)").startswith(f"{moved.folder}/")
        assert self.say(checkout, "import labkit; print(labkit.__file__)").startswith(f"{checkout.folder}/")
        shutil.rmtree(moved.folder)

    @staticmethod
    def set_up(checkout) -> None:
        done = checkout.make("setup")
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def native_module(checkout) -> Path:
        return next((checkout.folder / ".venv/lib").glob("*/site-packages/labkit/_native*.so"))

    @staticmethod
    def say(checkout, program: str) -> str:
        """What `program` prints, started elsewhere with an empty environment, as an agent may be."""
        return subprocess.run(
            [checkout.folder / ".venv/bin/python", "-I", "-c", program],
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.strip()
