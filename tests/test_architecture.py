"""The structure of the code: imports between rooms, places of libraries, names, file sizes."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("s4nd", "pretrained_2d", "videopipe")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CODE = [*FILES, *sorted((ROOT / "tools").glob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
LONGEST = 300

# What each room may import of the others, from the layer to the application. A room is a folder of
# a package; the modules beside the folders count as one room with the package's name. Every room
# may import itself, and every room of `videopipe` the errors and `models` of `videopipe`.
LAYER = {"s4nd", "s4nd.kernels"}
BELOW_ROOMS = {*LAYER, "pretrained_2d"}  # basics: atomic, errors, randomness, setting
IMAGES = {"pretrained_2d.networks", "pretrained_2d.checkpoints", "pretrained_2d.training"}
MAY_IMPORT = {
    "s4nd": {"s4nd.kernels", "s4nd.engines", "s4nd.compiled"},
    "s4nd.kernels": {"s4nd"},
    "s4nd.engines": {"s4nd"},
    "s4nd.compiled": LAYER,
    "pretrained_2d": {*LAYER, *IMAGES, "pretrained_2d.images"},
    "pretrained_2d.networks": BELOW_ROOMS,
    "pretrained_2d.checkpoints": {*BELOW_ROOMS, "pretrained_2d.networks"},
    "pretrained_2d.training": {*BELOW_ROOMS, "pretrained_2d.checkpoints"},
    "pretrained_2d.images": {"pretrained_2d", *IMAGES},
    "videopipe": {
        "pretrained_2d", *IMAGES, "videopipe.commands", "videopipe.inflation",
        "videopipe.pipeline", "videopipe.prediction", "videopipe.probing", "videopipe.system",
    },
    "videopipe.system": {"pretrained_2d.training"},
    "videopipe.video": {"pretrained_2d", "videopipe.system"},
    "videopipe.dataset": {"pretrained_2d", "videopipe.system", "videopipe.video"},
    "videopipe.inflation": {*BELOW_ROOMS, *IMAGES, "s4nd.compiled"},
    "videopipe.scoring": {
        "pretrained_2d", *IMAGES, "videopipe.system", "videopipe.video", "videopipe.dataset",
    },
    "videopipe.prediction": {
        "pretrained_2d", *IMAGES, "videopipe.system", "videopipe.video", "videopipe.dataset",
        "videopipe.inflation", "videopipe.scoring",
    },
    "videopipe.export": {
        *BELOW_ROOMS, *IMAGES, "videopipe.system", "videopipe.dataset", "videopipe.scoring",
        "videopipe.prediction",
    },
    "videopipe.evaluation": {
        "pretrained_2d", *IMAGES, "videopipe.system", "videopipe.dataset", "videopipe.inflation",
        "videopipe.scoring", "videopipe.prediction", "videopipe.pipeline",
    },
    "videopipe.finetuning": {
        *BELOW_ROOMS, *IMAGES, "videopipe.system", "videopipe.dataset", "videopipe.inflation",
        "videopipe.scoring", "videopipe.evaluation",
    },
    "videopipe.probing": {
        *BELOW_ROOMS, *IMAGES, "videopipe.system", "videopipe.dataset", "videopipe.inflation",
        "videopipe.scoring", "videopipe.finetuning",
    },
    "videopipe.pipeline": {
        "pretrained_2d", "pretrained_2d.checkpoints", "videopipe.system", "videopipe.dataset",
    },
    "videopipe.report": {
        *BELOW_ROOMS, *IMAGES, "videopipe.system", "videopipe.video", "videopipe.dataset",
        "videopipe.evaluation", "videopipe.pipeline",
    },
}  # fmt: skip
# The two rooms at the top have a thin file per stage and command and may import all others.
AT_THE_TOP = {"videopipe.stages", "videopipe.commands"}
ENTRIES_IN_A_ROOM = 12
ROOMS_OF_THE_APPLICATION = 18  # `videopipe` itself is the list of its rooms
# Module names that several rooms may use, because the room distinguishes them.
SHARED_MODULE_NAMES = {
    "__init__", "errors",
    "operation",  # what the command and the stage of a room share: inflate, finetune, predict
    "convnext", "isotropic", "vit",  # networks/ and checkpoints/reference/
}  # fmt: skip
# Rooms whose modules are named after what they run or show.
NAMED_AFTER_OTHERS = ("videopipe/commands/", "videopipe/stages/", "videopipe/report/sections/")
# Besides the standard library, the layer imports torch and einops only.
STANDARD_OF_S4ND = {"torch", "einops"}
# A library named here is imported below these paths and nowhere else.
PLACES = {
    "yaml": ("videopipe/pipeline/document/yaml_text.py",),
    "numba": ("s4nd/compiled/jit.py", "s4nd/compiled/tiles.py"),
    "av": ("videopipe/video/", "videopipe/dataset/"),
    "decord": ("videopipe/video/", "videopipe/dataset/"),
    "torchcodec": ("videopipe/video/", "videopipe/dataset/"),
    "pytorchvideo": ("videopipe/video/", "videopipe/dataset/"),
    "onnx": ("videopipe/export/",),
    "onnxruntime": ("videopipe/export/",),
    "onnxscript": ("videopipe/export/",),
    "huggingface_hub": ("videopipe/models.py",),
    "fsspec": ("videopipe/video/sources/",),
    "lance": ("videopipe/prediction/table/lance_dataset.py",),
    "transformers": ("pretrained_2d/networks/libraries/transformers_video.py",),
    "accelerate": (
        "pretrained_2d/training",
        "videopipe/scoring",
        "videopipe/prediction",
        "videopipe/system/processes.py",
        "videopipe/pipeline/run.py",
    ),
}
# Imported by `videopipe --help`: heavy imports at their top would slow every command down.
QUICK = ("videopipe/cli.py", "videopipe/commands/", "videopipe/stages/")
HEAVY = {
    "torch", "torchvision", "timm", "numpy", "av", "accelerate", "pyarrow", "matplotlib", "PIL",
    "decord", "pytorchvideo", "torchcodec", "safetensors", "jinja2", "scipy", "rich", "yaml",
    "onnx", "onnxruntime", "huggingface_hub",
}  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """The top names of every module that a file imports."""
    tree = ast.parse(path.read_text())
    nodes = iter(_runs_on_import(tree)) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            yield (node.module or "").split(".")[0]


def _runs_on_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _runs_on_import(child)


def room_of(module: str) -> str:
    """`videopipe.video.backends.pyav` -> `videopipe.video`; `videopipe.errors` -> `videopipe`."""
    package, _, rest = module.partition(".")
    folder = rest.split(".")[0]
    return f"{package}.{folder}" if folder and (ROOT / package / folder).is_dir() else package


def modules_imported(path: Path) -> Iterator[str]:
    """The full names of every module of ours that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_imports_between_rooms_point_one_way() -> None:
    wrong = []
    for path in FILES:
        room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        if room in AT_THE_TOP:
            continue
        ours = {room_of(name) for name in modules_imported(path) if name.split(".")[0] in PACKAGES}
        own = {room, "videopipe"} if room.startswith("videopipe") else {room}
        if beyond := ours - own - MAY_IMPORT[room]:
            wrong.append(f"{name_of(path)} of room {room} imports {sorted(beyond)}")
    assert not wrong, "\n".join(wrong)


def test_rooms_are_small() -> None:
    for package in PACKAGES:
        for folder in [ROOT / package, *(p.parent for p in (ROOT / package).rglob("__init__.py"))]:
            names = {path.name for path in folder.iterdir()}
            entries = names - {"__init__.py", "__pycache__", "py.typed"}
            application = folder == ROOT / "videopipe"
            most = ROOMS_OF_THE_APPLICATION if application else ENTRIES_IN_A_ROOM
            assert len(entries) <= most, f"{folder}: {len(entries)} entries"


def test_a_class_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name_of(path))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_a_module_name_has_one_meaning() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        if not name_of(path).startswith(NAMED_AFTER_OTHERS):
            places.setdefault(path.stem, []).append(name_of(path))
    repeated = {name for name, found in places.items() if len(found) > 1}
    assert repeated <= SHARED_MODULE_NAMES, {name: places[name] for name in repeated}


def test_libraries_keep_to_their_place() -> None:
    wrong = [
        f"{name_of(path)} imports {library}; it belongs in {PLACES[library]}"
        for path in FILES
        for library in sorted(set(imports(path)) & set(PLACES))
        if not any(name_of(path).startswith(place) for place in PLACES[library])
    ]
    assert not wrong, "\n".join(wrong)


def test_the_layer_needs_torch_and_einops_only() -> None:
    import sys

    for path in (ROOT / "s4nd").rglob("*.py"):
        foreign = set(imports(path)) - set(sys.stdlib_module_names) - {"s4nd"}
        allowed = STANDARD_OF_S4ND | (
            {"llvmlite", "numba", "numpy"} if name_of(path).startswith("s4nd/compiled/") else set()
        )
        assert foreign <= allowed, f"{name_of(path)} imports {foreign}"


def test_what_help_reads_imports_nothing_heavy() -> None:
    wrong = [
        f"{name_of(path)} imports {sorted(heavy)} at its top; import it inside a function"
        for path in FILES
        if name_of(path).startswith(QUICK)
        and (heavy := set(imports(path, top_level_only=True)) & HEAVY)
    ]
    assert not wrong, "\n".join(wrong)


def test_files_stay_short() -> None:
    lines = {name_of(path): len(path.read_text().splitlines()) for path in CODE}
    long = {name: count for name, count in lines.items() if count > LONGEST}
    assert not long, f"more than {LONGEST} lines; split them by idea: {long}"


def test_no_module_has_a_catch_all_name() -> None:
    catch_all = {"utils", "util", "common", "helpers", "misc"}
    assert not [name_of(path) for path in CODE if path.stem in catch_all]


def test_packages_are_marked_as_typed() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_test_folders_are_not_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
