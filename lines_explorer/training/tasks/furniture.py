"""Views of the Sweet Home 3D furniture models, drawn with numpy by splatting points of their surfaces."""

from __future__ import annotations

import hashlib
import io
import math
import posixpath
import random
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from ..sources import fetch
from .common import Notice, TaskData, capped, dark_colour, light_colour, on_ground

VIEWS = 12
POINTS = 60_000
RENDER = 80
"""Side in pixels of a drawn view, before it is composed and reduced."""

TEXTURE = 64
GREY = (200.0, 200.0, 200.0)
LIGHT = np.array([0.35, 0.60, 0.72], dtype=np.float32)

HEAD_NOUNS: dict[str, str] = {
    "chair": "chair stool armchair",
    "table": "table desk",
    "sofa": "sofa couch",
    "bed": "bed crib",
    "lamp": "lamp lantern spotlight light lamppost",
    "cabinet": "cabinet cupboard wardrobe bookcase shelves dresser chest",
    "plant": "plant tree flowers cactus bush bamboo ficus yucca orchids tulips lily spathiphyllum blossom"
    " acacia poplar pine cypress maple beech",
    "door or window": "door window",
    "vessel": "vase bottle cup mug glass jar bowl teapot",
    "vehicle": "sedan truck bus van suv car scooter bicycle bike rowboat biplane model lift"
    " focus beetle leon peugeot scenic chevrolet yzr",
}
"""Last words of a model's name by which its class is known ("lift" is a fork lift, "model" a model car)."""

CLASSES = tuple(HEAD_NOUNS)
CLASS_OF_NOUN = {noun: label for label, nouns in enumerate(HEAD_NOUNS.values()) for noun in nouns.split()}
OTHER_THINGS = frozenset({"indoor bike", "pool table", "football table"})
PROMPTS = (
    "a chair",
    "a table",
    "a sofa",
    "a bed",
    "a lamp",
    "a cabinet with shelves",
    "a plant or a tree",
    "a door or a window",
    "a cup, bottle or vase",
    "a car or another vehicle",
)
TEMPLATES = ("a picture of {}.", "a photo of {}.", "a 3D model of {}.", "a rendering of {} on a plain background.")
ADDRESS = "https://www.sweethome3d.com/importModels.jsp"
SCOPIA = "Scopia Visual Interfaces Systems, s.l. (www.scopia.es) and Emmanuel Puybaret / eTeks"
CATALOGUES: dict[str, tuple[str, str]] = {
    "BlendSwap-CC-0": ("CC0-1.0", ""),
    "BlendSwap-CC-BY": ("CC-BY-3.0", ""),
    "KatorLegaz": ("CC-BY-3.0-US", "Andrew Kator & Jennifer Legaz"),
    "Scopia": ("CC-BY-3.0", SCOPIA),
}
"""Licence and author of each catalogue that is read; without an author, its models name their own."""


@dataclass(frozen=True)
class Model:
    """One model of a catalogue: its class, the family of look-alikes it belongs to, and its catalogue entry."""

    catalogue: str
    label: int
    family: str
    entry: dict[str, str]

    @property
    def key(self) -> str:
        """Name of the model, unique over all catalogues."""
        return f"{self.catalogue}:{posixpath.basename(self.entry['model'])}:{self.entry['id']}"


@dataclass
class Material:
    """Diffuse colour (0…255), opacity (0…1), and a texture of shape (``TEXTURE``, ``TEXTURE``, 3) if it has one."""

    colour: np.ndarray = field(default_factory=lambda: np.array(GREY, dtype=np.float32))
    opacity: float = 1.0
    texture: np.ndarray | None = None


@dataclass
class Mesh:
    """Triangles: ``corners`` (t, 3) into ``vertices`` (v, 3), ``uv_corners`` (t, 3) into ``uvs`` (u, 2) or −1."""

    vertices: np.ndarray
    uvs: np.ndarray
    corners: np.ndarray
    uv_corners: np.ndarray
    material: np.ndarray
    materials: list[Material]


@dataclass
class Cloud:
    """Points of a surface: positions and unit normals (n, 3), colours (n, 3) in 0…255, opacities (n,)."""

    points: np.ndarray
    normals: np.ndarray
    colours: np.ndarray
    opacities: np.ndarray


def plain_name(name: str) -> str:
    """A model's name without what tells variants apart: "Triple French window 3 panes" → "french window"."""
    name = re.sub(r"(?<=\w) *(\b\w*\d|\b(with|on|under|small panes|bz)\b).*", "", name.lower())
    return re.sub(r"^((opened|bended|blue|double|triple|quadruple) )+", "", name).strip()


def models(bundle: zipfile.ZipFile, catalogue: str) -> Iterator[Model]:
    """The models of a catalogue whose name ends in one of ``HEAD_NOUNS``."""
    text = bundle.read("PluginFurnitureCatalog.properties").decode("latin1")
    entries: dict[int, dict[str, str]] = defaultdict(dict)
    for key, number, value in re.findall(r"^(\w+)#(\d+)\s*=[ \t]*(.*?)\s*$", text, re.MULTILINE):
        entries[int(number)][key] = value
    for entry in entries.values():
        name = plain_name(entry["name"])
        label = CLASS_OF_NOUN.get(name.rpartition(" ")[2])
        if label is not None and name not in OTHER_THINGS:
            yield Model(catalogue, label, f"{catalogue}:{entry['creator']}:{name}", entry)


def read_materials(bundle: zipfile.ZipFile, path: str) -> dict[str, Material]:
    """The materials of an MTL file by name.

    What the archive does not hold (some textures are named by a path on their author's disk) is left out:
    the surface then has its plain colour, or ``GREY``.
    """
    held = set(bundle.namelist())
    if path not in held:
        return {}
    found: dict[str, Material] = {}
    material = Material()
    for line in bundle.read(path).decode("latin1").splitlines():
        key, _, value = line.strip().partition(" ")
        value = value.strip()
        if key == "newmtl":
            material = found[value] = Material()
        elif key == "Kd":
            material.colour = np.array(value.split()[:3], dtype=np.float32) * 255
        elif key == "d":
            material.opacity = float(value.split()[-1])
        elif key == "map_Kd":
            image = posixpath.normpath(posixpath.join(posixpath.dirname(path), value.replace("\\", "/")))
            if image in held:
                picture = Image.open(io.BytesIO(bundle.read(image))).convert("RGB").resize((TEXTURE, TEXTURE))
                material.texture = np.asarray(picture, dtype=np.float32)
    return found


def read_mesh(bundle: zipfile.ZipFile, path: str) -> Mesh:
    """The triangles of an OBJ file; polygons become fans."""
    vertices: list[list[str]] = []
    uvs: list[list[str]] = []
    faces: list[tuple[int, ...]] = []
    library: dict[str, Material] = {}
    used: dict[str, int] = {}
    material = used.setdefault("", 0)
    for line in bundle.read(path).decode("latin1").splitlines():
        words = line.split()
        if not words:
            continue
        if words[0] == "v":
            vertices.append(words[1:4])
        elif words[0] == "vt":
            uvs.append(words[1:3])
        elif words[0] == "f":
            corners = [corner.split("/") for corner in words[1:]]
            at = [_index(corner[0], len(vertices)) for corner in corners]
            uv = [_index(corner[1], len(uvs)) if len(corner) > 1 else -1 for corner in corners]
            for i in range(1, len(at) - 1):
                faces.append((at[0], at[i], at[i + 1], uv[0], uv[i], uv[i + 1], material))
        elif words[0] == "usemtl":
            material = used.setdefault(" ".join(words[1:]), len(used))
        elif words[0] == "mtllib":
            library |= read_materials(bundle, posixpath.join(posixpath.dirname(path), " ".join(words[1:])))
    table = np.array(faces, dtype=np.int64)
    return Mesh(
        vertices=np.array(vertices, dtype=np.float32),
        uvs=np.array(uvs or [[0, 0]], dtype=np.float32),
        corners=table[:, 0:3],
        uv_corners=table[:, 3:6],
        material=table[:, 6],
        materials=[library.get(name, Material()) for name in used],
    )


def _index(text: str, count: int) -> int:
    """An OBJ index (from 1, or negative from the end) as an index from 0; −1 when there is none."""
    if not text:
        return -1
    return int(text) - 1 if int(text) > 0 else count + int(text)


def turned(vectors: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """``vectors`` (n, 3) times the transpose of ``matrix`` (k, 3): (n, k).

    Written out, because a matrix product of a BLAS rounds otherwise on another processor.
    """
    columns = vectors[:, 0, None] * matrix[:, 0] + vectors[:, 1, None] * matrix[:, 1]
    return columns + vectors[:, 2, None] * matrix[:, 2]


def placed(vertices: np.ndarray, entry: dict[str, str]) -> np.ndarray:
    """Vertices turned upright, stretched to the catalogue's width, height and depth, in a ball of radius 1."""
    turn = np.array(entry.get("modelRotation", "1 0 0 0 1 0 0 0 1").split(), dtype=np.float32).reshape(3, 3)
    vertices = turned(vertices, turn)
    low, high = vertices.min(0), vertices.max(0)
    size = np.array([entry["width"], entry["height"], entry["depth"]], dtype=np.float32)
    return (vertices - (low + high) / 2) / np.maximum(high - low, 1e-6) * size / np.linalg.norm(size) * 2


def sample_surface(mesh: Mesh, count: int, rng: np.random.Generator) -> Cloud:
    """``count`` points drawn evenly over the surface of a mesh."""
    a, b, c = (mesh.vertices[mesh.corners[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    area = np.linalg.norm(normals, axis=1)
    face = rng.choice(len(area), count, p=area / area.sum())
    root, share = np.sqrt(rng.random((count, 1))), rng.random((count, 1))
    weights = np.stack([1 - root, root * (1 - share), root * share]).astype(np.float32)
    uv_corners = mesh.uv_corners[face]
    uv = sum(weights[corner] * mesh.uvs[uv_corners[:, corner]] for corner in range(3))
    column, row = (np.nan_to_num(uv % 1.0).clip(0, 1) * (TEXTURE - 1)).astype(int).T
    colours = np.empty((count, 3), dtype=np.float32)
    opacities = np.empty(count, dtype=np.float32)
    for number, material in enumerate(mesh.materials):
        mine = mesh.material[face] == number
        colours[mine], opacities[mine] = material.colour, material.opacity
        if material.texture is not None:
            mine &= (uv_corners >= 0).all(1)
            colours[mine] = material.texture[TEXTURE - 1 - row[mine], column[mine]]
    points = weights[0] * a[face] + weights[1] * b[face] + weights[2] * c[face]
    return Cloud(points, normals[face] / area[face, None], colours, opacities)


def nearest(cell: np.ndarray, depth: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """For each pixel the chosen point nearest to the eye, or −1; each point covers 2×2 pixels.

    ``cell``: (n,) flat pixel of each point.  ``depth``: (n,) larger is nearer.  ``chosen``: (n,) bool.
    """
    order = np.flatnonzero(chosen)
    order = order[np.argsort(depth[order], kind="stable")]
    winner = np.full(RENDER * RENDER, -1)
    winner[(cell[order, None] + (0, 1, RENDER, RENDER + 1)).ravel()] = np.repeat(order, 4)
    return winner


def render(cloud: Cloud, azimuth: float, elevation: float) -> Image.Image:
    """An RGBA view, cropped to what is seen; angles in radians, azimuth 0 looks at the front."""
    ca, sa, ce, se = math.cos(azimuth), math.sin(azimuth), math.cos(elevation), math.sin(elevation)
    turn = np.array([[ca, 0, sa], [se * sa, ce, -se * ca], [-ce * sa, se, ce * ca]], dtype=np.float32)
    points, normals = turned(cloud.points, turn), turned(cloud.normals, turn)
    facing = normals * np.where(normals[:, 2:] < 0, -1, 1)
    shaded = (cloud.colours * (0.45 + 0.6 * np.clip(turned(facing, LIGHT[None]), 0, 1))).clip(0, 255)
    depth = points[:, 2]
    flat = points[:, :2] / (1 - 0.15 * depth)[:, None]
    flat = (0.5 + 0.5 * flat / np.abs(flat).max()) * (RENDER - 2)
    column, row = flat.astype(int).T
    cell = (RENDER - 2 - row) * RENDER + column
    solid = nearest(cell, depth, cloud.opacities >= 0.95)
    glass = nearest(cell, depth, cloud.opacities < 0.95)
    image = np.zeros((RENDER * RENDER, 4), dtype=np.float32)
    image[solid >= 0] = np.column_stack([shaded, np.full(len(shaded), 255)])[solid[solid >= 0]]
    seen = (glass >= 0) & ((solid < 0) | (depth[glass] > depth[solid]))
    strength = np.maximum(cloud.opacities[glass[seen]], 0.35)[:, None]
    behind = np.where(image[seen, 3:] > 0, image[seen, :3], shaded[glass[seen]])
    image[seen, :3] = (1 - strength) * behind + strength * shaded[glass[seen]]
    image[seen, 3:] = np.maximum(image[seen, 3:], 255 * strength)
    picture = Image.fromarray(image.reshape(RENDER, RENDER, 4).astype(np.uint8))
    return picture.crop(picture.getbbox())


def split_families(found: list[Model], train: float, validation: float) -> dict[str, str]:
    """The split of each family: in the order of a hash, up to these cumulative shares of the models of a class."""
    splits: dict[str, str] = {}
    for label in range(len(CLASSES)):
        families = [model.family for model in found if model.label == label]
        done = 0
        for family in sorted(set(families), key=lambda name: hashlib.md5(name.encode()).hexdigest()):
            share = (done + families.count(family) / 2) / len(families)
            splits[family] = "train" if share < train else "validation" if share < validation else "test"
            done += families.count(family)
    return splits


def notices(found: list[Model]) -> list[Notice]:
    """One notice per catalogue; where models have authors of their own, all of them by name."""
    rows = []
    for catalogue, (licence, author) in CATALOGUES.items():
        mine = [model for model in found if model.catalogue == catalogue]
        author = author or ", ".join(sorted({model.entry["creator"] for model in mine}, key=str.casefold))
        use = f"{len(mine)} models drawn from {VIEWS} sides on plain grounds, 32×32"
        rows.append(Notice(f"Sweet Home 3D furniture, catalogue {catalogue}", author, licence, ADDRESS, use))
    return rows


def build() -> TaskData:
    """``VIEWS`` pictures of each model, about 60 % / 10 % / 30 % of the models of each class; item = family."""
    folder: Path = fetch("apt", "sweethome3d-furniture") / "usr/share/sweethome3d/furniture"
    bundles = {catalogue: zipfile.ZipFile(folder / f"{catalogue}.sh3f") for catalogue in CATALOGUES}
    found = [model for catalogue, bundle in bundles.items() for model in models(bundle, catalogue)]
    splits = split_families(found, 0.6, 0.7)
    data = TaskData(
        name="furniture",
        title="Furniture",
        domain="3-D renderings",
        new_in_test="unseen models",
        classes=CLASSES,
        prompts=PROMPTS,
        templates=TEMPLATES,
        notices=notices(found),
    )
    for model in found:
        rng = random.Random(model.key)
        mesh = read_mesh(bundles[model.catalogue], model.entry["model"].lstrip("/"))
        mesh.vertices = placed(mesh.vertices, model.entry)
        cloud = sample_surface(mesh, POINTS, np.random.default_rng(rng.getrandbits(64)))
        for _ in range(VIEWS):
            view = render(cloud, rng.uniform(-1.4, 1.4), rng.uniform(0.1, 0.7))
            ground = light_colour(rng) if rng.random() < 0.7 else dark_colour(rng)
            picture = on_ground(view, ground, rng, rng.uniform(0.8, 0.97), 0.04)
            data.add(picture, model.label, splits[model.family], model.family)
    return capped(data, {"validation": 60, "test": 200})
