"""Simulation: intervals cover the true value, and tests keep their level.

Videos belong to recordings, and evaluations are repeated. Whether a model classifies a video right
depends on the recording, the video, the repeat and chance, each a normal variable.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from videopipe.evaluation.statistics import compare_paired, mcnemar_p_value, proportion

SAMPLES = 400
# Of 400 samples at 95 %, the number covered has a standard deviation of 4.4: 0.011.
LEAST_COVERED, MOST_REJECTED = 0.95 - 3 * 0.011, 0.05 + 3 * 0.011


@dataclass(frozen=True)
class Population:
    recordings: int
    videos_each: int
    repeats: int
    recording_sd: float
    video_sd: float
    repeat_sd: float
    ease: float  # higher: more videos are classified right

    @property
    def accuracy(self) -> float:
        variance = 1 + 2 * self.recording_sd**2 + 2 * self.video_sd**2 + self.repeat_sd**2
        return float(stats.norm.cdf(self.ease / np.sqrt(variance)))

    def names(self) -> tuple[list[str], list[str]]:
        """Recording and repeat of each observation."""
        own = [str(i) for i in range(self.recordings) for _ in range(self.videos_each)]
        return own * self.repeats, [str(r) for r in range(self.repeats) for _ in own]

    def draw(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Two equally good models on the same videos."""
        shape = (self.recordings, self.videos_each)

        def difficulty() -> np.ndarray:
            of_recording = random.normal(0, self.recording_sd, (self.recordings, 1))
            return of_recording + random.normal(0, self.video_sd, shape)

        shared, models = difficulty(), []
        for _ in range(2):
            ability = self.ease + random.normal(0, self.repeat_sd, (self.repeats, 1, 1))
            chance = random.normal(0, 1, (self.repeats, *shape))
            models.append((ability + shared + difficulty() + chance > 0).reshape(-1))
        return models[0], models[1]


POPULATIONS = {
    "independent videos": Population(30, 1, 1, 0, 0.5, 0, 0),
    "hardly a mistake": Population(30, 1, 1, 0, 0.5, 0, 2.5),
    "recordings of five": Population(30, 5, 1, 0.7, 0.3, 0, 0),
    "ten large recordings": Population(10, 40, 1, 0.3, 0.3, 0, 0.5),
    "three splits": Population(40, 5, 3, 0.5, 0.5, 0.2, 0.8),
    "ten seeds, same videos": Population(50, 1, 10, 0, 1, 0.1, 0),
}


@pytest.mark.parametrize("name", POPULATIONS)
def test_intervals_cover_and_tests_keep_their_level(name: str) -> None:
    population, random = POPULATIONS[name], np.random.default_rng(0)
    recordings, repeats = population.names()
    covered = difference_covered = rejected = 0
    for _ in range(SAMPLES):
        first, second = population.draw(random)
        found = proportion(first, recordings, repeats)
        covered += found.low <= population.accuracy <= found.high
        pair = compare_paired(first, second, recordings, repeats)
        difference_covered += pair.low <= 0 <= pair.high
        rejected += pair.p_value < 0.05
    assert covered / SAMPLES > LEAST_COVERED
    assert difference_covered / SAMPLES > LEAST_COVERED
    assert rejected / SAMPLES < MOST_REJECTED


@pytest.mark.parametrize("name", ["recordings of five", "three splits", "ten seeds, same videos"])
def test_pooling_all_observations_would_reject_too_often(name: str) -> None:
    """The simulation detects the mistake that clustering avoids."""
    population, random = POPULATIONS[name], np.random.default_rng(0)
    rejected = 0
    for _ in range(SAMPLES):
        first, second = population.draw(random)
        counts = int((first & ~second).sum()), int((second & ~first).sum())
        rejected += mcnemar_p_value(*counts) < 0.05
    assert rejected / SAMPLES > MOST_REJECTED


def test_clustering_still_finds_a_difference() -> None:
    population, random = POPULATIONS["three splits"], np.random.default_rng(0)
    recordings, repeats = population.names()
    better = Population(40, 5, 3, 0.5, 0.5, 0.05, 0.8)
    found = 0
    for _ in range(50):
        first, second = better.draw(random)
        second |= random.random(second.size) < 0.5  # half of the mistakes are corrected
        found += compare_paired(first, second, recordings, repeats).p_value < 0.05
    assert found > 45


def test_the_difference_of_models_that_hardly_disagree_is_covered() -> None:
    """At 30 videos and 1 % of disagreement each way, most samples hold no disagreement at all."""
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(SAMPLES):
        outcome = random.choice(3, p=[0.98, 0.005, 0.015], size=30)
        pair = compare_paired(outcome != 1, outcome != 2)
        covered += pair.low <= 0.005 - 0.015 <= pair.high
    assert covered / SAMPLES > LEAST_COVERED
