"""Compiles the modules of the hot path when a wheel is built, if the machine can. hatchling calls this hook for pip.

`modules` of `[tool.hatch.build.targets.wheel.hooks.custom]` in pyproject.toml lists the modules. mypyc makes a C
extension of each, which lies beside the module's source in the wheel; Python prefers the extension. An editable
installation, and so every test in the tree, runs the sources.

The environment variable MAGNETAR_COMPILED decides. With `0` the wheel is pure Python and serves every platform. With
`1` a module that cannot be compiled fails the build. Without it the wheel is pure Python when the compilation fails,
and the build says why.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "MAGNETAR_COMPILED"
PURE, REQUIRED = "0", "1"
LIBRARY = "magnetar"
"""mypyc names the library that all extensions share after this group: `magnetar__mypyc`."""
INNER_PACKAGES = ("server", "storage", "metadata", "spark")
"""The packages that stand at the top level of the tree and inside `magnetar` in a wheel."""
MYPY_CONFIGURATION = """\
[mypy]
explicit_package_bases = True
namespace_packages = True
ignore_missing_imports = True
follow_imports = silent
"""


class CompiledModules(BuildHookInterface[Any]):
    """Adds the extensions to a wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Returns what the build environment needs: nothing when no module will be compiled."""
        requirements: list[str] = self.config["compiler"]
        return [] if os.environ.get(SWITCH) == PURE or not has_c_compiler() else requirements

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder: Path | None = None
        wish = os.environ.get(SWITCH)
        if version == "editable" or wish == PURE:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="magnetar-compiled-"))
        try:
            extensions = self._compile(self._folder)
        except (OSError, RuntimeError) as error:
            if wish == REQUIRED:
                raise
            self.app.display_warning(f"the wheel is pure Python, because nothing could be compiled: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for extension in extensions:
            build_data["force_include"][str(extension)] = str(extension.relative_to(self._folder))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self, folder: Path) -> list[Path]:
        """Compiles the modules in a copy of the tree that has the layout of a wheel; returns the extensions."""
        if not has_c_compiler():
            raise RuntimeError("there is no C compiler")
        root = Path(self.root)
        ignored = shutil.ignore_patterns("__pycache__", "*.so", *INNER_PACKAGES)
        shutil.copytree(root / "magnetar", folder / "magnetar", ignore=ignored)
        shutil.copytree(root / "pulsar_proto", folder / "pulsar_proto", ignore=shutil.ignore_patterns("__pycache__"))
        for package in INNER_PACKAGES:
            shutil.copytree(root / package, folder / "magnetar" / package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "mypy.ini").write_text(MYPY_CONFIGURATION)
        command = [sys.executable, __file__, *self.config["modules"]]
        # A process of its own, because mypyc ends the process after an error, and works in the current folder.
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"mypyc failed:\n{done.stdout[-4000:]}")
        shutil.rmtree(folder / "build")
        return sorted(folder.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))


def has_c_compiler() -> bool:
    program = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(program.split()[0]) is not None


def compile_here(modules: list[str]) -> None:
    """Compiles the modules of the current folder, whose names are paths, and puts each extension beside its source."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    # One C file for each module: gcc needs a third of the time that it needs for one file of half a million lines.
    options = ["--config-file", "mypy.ini", *modules]
    extensions = mypycify(options, opt_level="2", debug_level="0", multi_file=True, group_name=LIBRARY)
    for extension in extensions:
        # Calls between these files are then direct: only the modules' entry points are seen from outside.
        extension.extra_compile_args.append("-fvisibility=hidden")
    build = Distribution({"name": LIBRARY, "ext_modules": extensions}).get_command_obj("build_ext")
    build.inplace = True
    build.ensure_finalized()
    build.run()


if __name__ == "__main__":
    compile_here(sys.argv[1:])
