"""The bundle that carries the data source to executors, imported by Pythons that lack what is in it. Without Spark."""

import ast
import io
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from magnetar.server.commands.main import main
from magnetar.spark.shipping.bundle import make_bundle
from magnetar.spark.shipping.library_rules import LIBRARIES, fits

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("cramjam", "fastavro", "google_crc32c", "orjson", "google.protobuf")
REPORT = f"""
import importlib, json, sys
sys.path.insert(1, sys.argv[1])
import magnetar
from pulsar_proto.wire.commands import parse_command
print(json.dumps({{name: importlib.import_module(name).__file__ for name in {("magnetar", *NAMES)}}}))
"""
"""Prints where a Python has found the modules, with the bundle on its path."""


@pytest.fixture(scope="module")
def content() -> bytes:
    return make_bundle().content


@pytest.fixture
def bundle(content: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "magnetar.zip"
    path.write_bytes(content)
    return path


def found_by(python_options: list[str], bundle: Path, **variables: str) -> dict[str, str]:
    """Returns where a new Python process finds the modules. Raises AssertionError with what it says when it fails."""
    command = [sys.executable, *python_options, "-c", REPORT, str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=variables, cwd=bundle.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def unpacked(folder: Path) -> list[Path]:
    return sorted(folder.glob("magnetar-libraries-*"))


@pytest.mark.process
def test_a_python_without_the_libraries_has_them_from_the_bundle_once(bundle: Path) -> None:
    for _ in range(2):
        found = found_by(["-I", "-S"], bundle)
        (folder,) = unpacked(bundle.parent)
        assert found["magnetar"] == str(bundle / "magnetar" / "__init__.py")
        assert all(Path(found[name]).is_relative_to(folder) for name in NAMES), found
    assert sorted(path.name for path in bundle.parent.iterdir()) == [folder.name, bundle.name]


@pytest.mark.process
def test_processes_that_begin_at_once_all_have_the_libraries(bundle: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", REPORT, str(bundle)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    assert len(unpacked(bundle.parent)) == 1


@pytest.mark.process
def test_libraries_that_are_installed_and_fit_are_used(bundle: Path) -> None:
    found = found_by(["-I"], bundle)
    assert found["magnetar"] == str(bundle / "magnetar" / "__init__.py")
    assert all(not Path(found[name]).is_relative_to(bundle.parent) for name in NAMES), found
    assert not unpacked(bundle.parent)


@pytest.mark.process
def test_a_library_in_a_version_that_is_too_old_is_replaced(bundle: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "google" / "protobuf").mkdir(parents=True)
    (old / "google" / "protobuf" / "__init__.py").write_text("raise ImportError('old')\n")
    (old / "protobuf-4.25.0.dist-info").mkdir()
    (old / "protobuf-4.25.0.dist-info" / "METADATA").write_text("Name: protobuf\nVersion: 4.25.0\n")
    found = found_by(["-S"], bundle, PYTHONPATH=str(old))
    assert Path(found["google.protobuf"]).is_relative_to(unpacked(bundle.parent)[0])


@pytest.mark.process
def test_an_unpacked_bundle_is_used_as_it_lies_there(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "home")
    found = found_by(["-I", "-S"], tmp_path / "home")
    assert all(Path(each).is_relative_to(tmp_path / "home") for each in found.values()), found


@pytest.mark.process
def test_where_something_else_has_the_folders_name_the_temporary_folder_is_used(bundle: Path, tmp_path: Path) -> None:
    found_by(["-I", "-S"], bundle)
    (folder,) = unpacked(bundle.parent)
    folder.rename(tmp_path / "taken")
    folder.write_text("in the way")
    other = tmp_path / "temporary"
    other.mkdir()
    found = found_by(["-S"], bundle, TMPDIR=str(other))
    assert Path(found["orjson"]).is_relative_to(other)


@pytest.mark.process
def test_a_bundle_of_another_kind_of_machine_is_named(content: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            given = source.read(name)
            if name == "magnetar/bundle.json":
                given = json.dumps({**json.loads(given), "abi": "cpython-310-darwin"}).encode()
            target.writestr(name, given)
    with pytest.raises(AssertionError, match=r"other\.zip has cramjam, .* for cpython-310-darwin, and this Python is"):
        found_by(["-I", "-S"], other)
    assert found_by(["-I"], other)["magnetar"] == str(other / "magnetar" / "__init__.py")


def test_the_same_installation_makes_the_same_bytes(content: bytes) -> None:
    again = make_bundle()
    assert again.content == content
    assert again.name == make_bundle().name


def test_what_modules_of_a_bundle_import_of_the_project_is_in_it(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = set(archive.namelist())
        sources = {name: archive.read(name) for name in names if name.startswith(("magnetar/", "pulsar_proto/"))}
    missing = []
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)) if name.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("magnetar.", "pulsar_proto")):
                path = str(node.module).replace(".", "/")
                if not {f"{path}.py", f"{path}/__init__.py"} & names:
                    missing.append(f"{name}: {node.module}")
    assert missing == []


def test_the_command_writes_a_bundle_and_says_what_is_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "magnetar.zip"
    assert main(["spark", "--bundle", str(path)]) == 0
    assert zipfile.is_zipfile(path)
    assert f"{path}: magnetar " in (said := capsys.readouterr().out)
    assert "protobuf " in said
    assert main(["spark", "--bundle", str(tmp_path / "nowhere" / "magnetar.zip")]) == 1
    assert "magnetar spark --bundle: " in capsys.readouterr().err


@pytest.mark.process
def test_a_bundle_without_a_library_is_refused_with_what_to_install(tmp_path: Path) -> None:
    command = "import sys; sys.path.insert(1, sys.argv[1]); from magnetar.spark.shipping.bundle import write_bundle; "
    command += "sys.exit(write_bundle(sys.argv[2]))"
    made = [sys.executable, "-I", "-S", "-c", command, str(ROOT), str(tmp_path / "made.zip")]
    done = subprocess.run(made, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("magnetar spark --bundle: cramjam is not installed beside ")


def test_the_bounds_of_versions_are_those_of_the_project() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    for name, (lowest, too_new) in LIBRARIES.items():
        assert f"{name}>={lowest}" + (f",<{too_new}" if too_new else "") in needed


@pytest.mark.parametrize(
    ("version", "is_fit"),
    [
        ("6.31", True),
        ("6.33.6", True),
        ("7.0", True),
        ("6.30.9", False),
        ("8.0.0rc1", False),
        ("", False),
        (None, False),
    ],
)
def test_versions_fit_by_their_numbers(version: str | None, is_fit: bool) -> None:
    assert fits(version, ("6.31", "8")) is is_fit
