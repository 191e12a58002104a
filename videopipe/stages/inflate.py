"""Inflate a 2D network along time, and test it on still videos."""

from dataclasses import dataclass
from pathlib import Path

from pretrained_2d.setting import setting, settings_of
from videopipe.inflation.options import InflationOptions
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class InflateConfig(InflationOptions):
    """Options of the inflation, and the head."""

    num_classes: int | None = setting(
        None, "new head with this many classes; none keeps the head and its labels"
    )
    seed: int = setting(0, "random seed of a new head and of random kernels")

    def __post_init__(self) -> None:
        """Check the options and the number of classes."""
        super().__post_init__()
        if self.num_classes is not None and self.num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, got {self.num_classes}")

    @property
    def options(self) -> InflationOptions:
        """The options of the inflation itself."""
        return settings_of(InflationOptions, self)


def run(config: InflateConfig, inputs: Inputs, out: Path) -> Summary:
    """Inflate the backbone; `inflation.json` and `inflation.md` list what became of each layer."""
    from videopipe.inflation.operation import inflate_checkpoint
    from videopipe.system.progress import detail_line

    report = inflate_checkpoint(
        inputs["backbone"], out, config.options, num_classes=config.num_classes, seed=config.seed
    )
    detail_line(report.summary())
    return {
        "method": report.options.method,
        "parameters": report.parameters_after,
        "parameters_2d": report.parameters_before,
        "still_video_difference": report.proof.difference,
        "still_video_same_top1": report.proof.agreement,
        "exact": report.proof.exact,
    }


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    still = "; a still video gives the outputs of its image" if summary["exact"] else ""
    grown = f"{summary['parameters_2d']:,} -> {summary['parameters']:,}"
    return f"{grown} parameters, method {summary['method']}{still}"


STAGE = Stage(
    config=InflateConfig,
    run=run,
    version=2,
    output=Kind.VIDEO_MODEL,
    inputs={"backbone": Input((Kind.BACKBONE,))},
    outcome=in_words,
)
