"""Plug-ins that are single files: those in $RADT_PLUGINS are loaded before a name is looked up.

    RADT_PLUGINS=corridor.py:visits.py radt run corridor --method ra-dt-visits

A file registers something, such as `METHODS.register("mine", ...)` with METHODS of `radt.methods`.
Its module is called `radt.plugins.<name of the file>`. Whoever is sent one of its objects imports
that module, and with it this one: so worker processes load the same files.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

import radt.api  # so that radt's own names are there before others can take them  # noqa: F401
from radt.files import sha256
from radt.registry import LOADED, PLUGINS, REGISTRIES, PluginError, plugin_files, registered


def load_file(file: Path) -> None:
    """Run a plug-in's file as a module of its own, and see that it registers something."""
    name, before = f"{__name__}.{file.stem}", registered()
    if name in sys.modules:
        _check_same(file, sys.modules[name].__file__)
        return
    spec = importlib.util.spec_from_file_location(name, file)
    if file.suffix != ".py" or not file.is_file() or spec is None or spec.loader is None:
        raise PluginError(f"${PLUGINS} names {file}, which is no Python file; mend the path")
    module = importlib.util.module_from_spec(spec)
    content = sha256(file)
    sys.modules[name] = module  # where the module's own dataclasses look for their types
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PluginError(
            f"the plug-in {file} cannot be loaded: {type(error).__name__}: {error}"
            f"{_line_of(error, file)}; mend it, or take it out of ${PLUGINS}"
        ) from error
    own = {known for registry in REGISTRIES for known in registry._files.values()}
    if registered() == before and file.resolve() not in own:
        del sys.modules[name]
        raise PluginError(
            f"the plug-in {file} registers nothing; let it call the register() of a registry such "
            "as radt.envs.SUITES, radt.memory.embed.EMBEDDERS or radt.methods.METHODS"
        )
    LOADED[file.resolve()] = content


def _check_same(file: Path, loaded: str | None) -> None:
    """Refuse a second file of the same name: both would be one module."""
    if loaded is None or Path(loaded).resolve() != file.resolve():
        raise PluginError(f"the plug-ins {loaded} and {file} have one name; rename one of them")


def _line_of(error: Exception, file: Path) -> str:
    """Say where in a plug-in an error comes from; an error of syntax says so itself."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f" (line {lines[-1]})" if lines else ""


for each in plugin_files():
    load_file(each)
