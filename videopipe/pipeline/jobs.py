"""A pipeline: the jobs of a YAML file, in the order in which they run.

`load_pipeline` reports all problems of a file at once. A stage without a matrix is one job. With a
matrix, it and all stages that depend on it are one job per combination.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from videopipe.errors import ConfigError
from videopipe.pipeline.declare import Declaration, declare_stages
from videopipe.pipeline.document.convert import Converter
from videopipe.pipeline.document.nodes import MapNode, nearest
from videopipe.pipeline.document.overrides import apply_overrides
from videopipe.pipeline.document.yaml_text import read_yaml
from videopipe.pipeline.fingerprint import as_json, fingerprint, identify
from videopipe.pipeline.stage import Stage, variant_in_words


@dataclass(frozen=True, eq=False)
class Job:
    """One stage with one config; it has one result."""

    stage: str  # its name in the pipeline
    use: str  # its name in STAGES
    record: Stage[Any]
    config: Any
    inputs: Mapping[str, tuple["Job", ...]] = field(default_factory=dict)
    variant: Mapping[str, Any] = field(default_factory=dict)  # its place in the matrix

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything the result depends on, as JSON."""
        return {
            "use": self.use,
            "version": self.record.version,
            "config": identify(self.config),
            "inputs": {name: self._input_identity(name) for name in sorted(self.inputs)},
        }

    def _input_identity(self, name: str) -> list[Any]:
        jobs = self.inputs[name]
        if not self.record.inputs[name].many:
            return [job.fingerprint for job in jobs]
        # A stage that collects results also shows which stage and variant they are of.
        return [[job.stage, as_json(job.variant), job.fingerprint] for job in jobs]

    @cached_property
    def fingerprint(self) -> str:
        """The short name of `identity`."""
        return fingerprint(self.identity)

    @property
    def folder_name(self) -> str:
        """The name of its result below the runs folder."""
        return f"{self.stage}-{self.fingerprint}"

    @property
    def label(self) -> str:
        """`finetuned`, or `finetuned (length=20)` in a matrix."""
        if not self.variant:
            return self.stage
        return f"{self.stage} ({variant_in_words(self.variant)})"


@dataclass(frozen=True)
class Pipeline:
    """The checked content of a YAML file, with defaults filled in and one job per variant."""

    name: str
    jobs: tuple[Job, ...]
    resolved: Mapping[str, Any]  # plain values; as YAML it is itself a valid pipeline

    @property
    def stages(self) -> list[str]:
        """The names of its stages, in order."""
        return list(dict.fromkeys(job.stage for job in self.jobs))


def load_pipeline(
    path: Path,
    stages: Mapping[str, Stage[Any]],
    *,
    overrides: Sequence[str] = (),
    check_paths: bool = True,
) -> Pipeline:
    """Read a pipeline file, with `--set` overrides.

    Raises:
        ConfigError: with all problems of the file and of the overrides.
    """
    problems: list[str] = []
    root = read_yaml(path, problems)
    if root is None:
        raise ConfigError(problems)
    if not isinstance(root, MapNode):
        raise ConfigError([f"{root.where}: expected keys 'name' and 'stages', got {root}"])
    root = apply_overrides(root, overrides, problems)
    converter = Converter(problems, check_paths)
    name, declared = declare_stages(root, stages, converter)
    if problems:
        raise ConfigError(sorted(dict.fromkeys(problems), key=_position))
    jobs = _spread(declared)
    return Pipeline(name, jobs, {"name": name, "stages": _resolve(declared)})


def _position(problem: str) -> tuple[float, float]:
    """Line and column of a problem, for sorting; those of `--set` come last."""
    found = re.match(r".*?:(\d+):(\d+): ", problem)
    if found is None or problem.startswith("--set"):
        return math.inf, 0
    return int(found[1]), int(found[2])


def find_pipeline(name: str) -> Path:
    """A file, or the name of a pipeline that comes with videopipe (`demo`)."""
    path = Path(name)
    if path.is_file():
        return path
    folder = shipped_pipelines()
    shipped = {file.stem: file for file in sorted(folder.glob("*.yaml"))}
    if name in shipped:
        return shipped[name]
    what = "is a folder" if path.is_dir() else "no such file"
    raise ConfigError([f"{name}: {what}, and no pipeline of that name{nearest(name, shipped)}"])


def shipped_pipelines() -> Path:
    """The folder of the pipelines that come with videopipe."""
    import pipelines

    return Path(next(iter(pipelines.__path__)))


def _spread(declared: Mapping[str, Declaration]) -> tuple[Job, ...]:
    """One job per stage and combination of matrix values that reach it."""
    jobs: dict[str, list[Job]] = {}
    axis_names = _axis_names(declared)
    for name, stage in declared.items():
        single = [n for n in stage.inputs if not stage.record.inputs[n].many]
        jobs[name] = []
        for chosen, upstream in _agreeing(jobs, [stage.inputs[n][0] for n in single]):
            inputs = {n: (job,) for n, job in zip(single, chosen, strict=True)}
            for own_values, config in stage.configs:
                own = {axis_names[name, key]: value for key, value in own_values.items()}
                variant = {**upstream, **own}
                collected = {
                    n: tuple(
                        job
                        for source in stage.inputs[n]
                        for job in jobs[source]
                        if _agree(job.variant, variant)
                    )
                    for n in stage.inputs
                    if n not in single
                }
                jobs[name].append(
                    Job(name, stage.use, stage.record, config, {**inputs, **collected}, variant)
                )
    return tuple(job for stage_jobs in jobs.values() for job in stage_jobs)


def _agreeing(
    jobs: Mapping[str, list[Job]], sources: Sequence[str]
) -> Iterator[tuple[tuple[Job, ...], dict[str, Any]]]:
    """Every choice of one job per source in which shared matrix axes have the same value."""
    if not sources:
        yield (), {}
        return
    for chosen, variant in _agreeing(jobs, sources[:-1]):
        for job in jobs[sources[-1]]:
            if _agree(variant, job.variant):
                yield (*chosen, job), {**variant, **job.variant}


def _agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(other[key] == value for key, value in one.items() if key in other)


def _axis_names(declared: Mapping[str, Declaration]) -> dict[tuple[str, str], str]:
    """`length`, or `video_model.length` where two stages vary a key of the same name."""
    axes = [(name, key) for name, stage in declared.items() for key in stage.matrix]
    keys = [key for _, key in axes]
    return {(name, key): key if keys.count(key) == 1 else f"{name}.{key}" for name, key in axes}


def _resolve(declared: Mapping[str, Declaration]) -> dict[str, Any]:
    resolved = {}
    for name, stage in declared.items():
        entry: dict[str, Any] = {"use": stage.use}
        if stage.inputs:
            entry["inputs"] = {
                key: list(sources) if stage.record.inputs[key].many else sources[0]
                for key, sources in stage.inputs.items()
            }
        config = as_json(stage.configs[0][1])
        for key in stage.matrix:
            _remove(config, key.split("."))
        entry["config"] = config
        if stage.matrix:
            entry["matrix"] = {key: as_json(values) for key, values in stage.matrix.items()}
        resolved[name] = entry
    return resolved


def _remove(config: dict[str, Any], path: Sequence[str]) -> None:
    for key in path[:-1]:
        config = config[key]
    config.pop(path[-1], None)
