"""Logits and embeddings of clips, and how many passes they take."""

import torch

from videopipe.models import load_model
from videopipe.scoring.clip_classifier import ClipClassifier, reordered
from videopipe.scoring.settings import Scoring


def test_logits_and_embeddings_take_one_pass(tiny_model) -> None:
    network, card = load_model(tiny_model)
    passes = []
    network.head.register_forward_hook(lambda *_: passes.append("head"))
    next(network.children()).register_forward_hook(lambda *_: passes.append("first"))
    clips = torch.randint(0, 256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    logits, embeddings = ClipClassifier(network, card, Scoring(embeddings=True))(clips)
    assert sorted(passes) == ["first", "head"]
    assert embeddings is not None
    with torch.inference_mode():
        torch.testing.assert_close(network.head(embeddings), logits)
        expected = network.embed(card.preprocessing.normalize(clips))
    torch.testing.assert_close(embeddings, expected)
    alone, none = ClipClassifier(network, card, Scoring())(clips)
    assert none is None
    assert torch.equal(alone, logits)


def test_frames_in_another_order_are_the_same_frames() -> None:
    clip = torch.arange(7, dtype=torch.uint8).view(1, 7, 1, 1).expand(3, 7, 2, 2)
    assert torch.equal(reordered(clip, "reversed"), clip.flip(1))
    shuffled = reordered(clip, "shuffled")
    assert sorted(shuffled[0, :, 0, 0].tolist()) == list(range(7))
    assert not torch.equal(shuffled, clip)
    assert torch.equal(reordered(clip, "shuffled"), shuffled), "depends on the clip only"
    orders = {
        tuple(reordered(torch.cat((clip, pixels)), "shuffled")[0, :, 0, 0].tolist())
        for pixels in torch.randint(0, 256, (6, 1, 7, 2, 2), dtype=torch.uint8)
    }
    assert len(orders) > 3, "clips of other pixels are shuffled in other ways"
