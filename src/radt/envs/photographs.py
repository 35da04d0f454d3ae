"""Pictures of simulated robots by the `mujoco` renderer with OSMesa, where both are installed.

Drawing takes place in a process of its own: a graphics library that is missing or broken can end a
process, and `mujoco` chooses its library once, when it is imported. Where that process fails, there
are no pictures, and who asked draws a sketch instead.
"""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
MOST_SECONDS = 120  # for all pictures
BALL = (0.02, (1.0, 0.77, 0.24, 1.0))  # a goal: its radius and its colour


def photographs(
    model: Path, camera: int, poses: Floats, goals: Floats | None, pixels: int
) -> NDArray[np.uint8] | None:
    """Show joint positions [T, nq] and goals [T, 3] as [T, pixels, pixels, 3], or None."""
    job = io.BytesIO()
    balls = np.zeros((len(poses), 0, 3)) if goals is None else goals[:, None]
    np.savez(job, model=str(model), camera=camera, poses=poses, balls=balls, pixels=pixels)
    try:
        done = subprocess.run(
            [sys.executable, __file__],
            input=job.getvalue(),
            capture_output=True,
            timeout=MOST_SECONDS,
            check=True,
            env={**os.environ, "MUJOCO_GL": "osmesa"},
        )
        return np.asarray(np.load(io.BytesIO(done.stdout)))
    except (OSError, ValueError, EOFError, subprocess.SubprocessError):
        return None


def take(job: Any) -> NDArray[np.uint8]:
    """Take the pictures; this is the other process."""
    mujoco: Any = importlib.import_module("mujoco")  # only here: it may end the process
    model = mujoco.MjModel.from_xml_path(str(job["model"]))
    for colours, named in ((model.geom_rgba, model.geom), (model.site_rgba, model.site)):
        for one in range(len(colours)):
            if named(one).name == "target":  # a ball is there instead
                colours[one, 3] = 0.0
    data, taken = mujoco.MjData(model), []
    renderer = mujoco.Renderer(model, int(job["pixels"]), int(job["pixels"]))
    for pose, balls in zip(job["poses"], job["balls"], strict=True):
        data.qpos[:] = pose
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, camera=int(job["camera"]))
        for place in balls:
            ball = renderer.scene.geoms[renderer.scene.ngeom]
            shape, (radius, colour) = mujoco.mjtGeom.mjGEOM_SPHERE, BALL
            mujoco.mjv_initGeom(ball, shape, np.full(3, radius), place, np.eye(3).ravel(), colour)
            renderer.scene.ngeom += 1
        taken.append(renderer.render())
    return np.stack(taken)


if __name__ == "__main__":
    np.save(sys.stdout.buffer, take(np.load(io.BytesIO(sys.stdin.buffer.read()))))
