import json

from pretrained_2d.networks.backbones import BACKBONES
from videopipe.cli import main


def test_the_table_names_every_backbone_with_size_and_parameters(capsys) -> None:
    assert main(["models"]) == 0
    table = capsys.readouterr().out
    rows = [line.split() for line in table.splitlines()]
    assert {row[0] for row in rows} >= set(BACKBONES)
    s4nd = next(row for row in rows if row[:2] == ["convnext_tiny", "mixer=s4nd"])
    assert "29,980,456" in s4nd
    assert "224×224" in s4nd
    assert "timm/<name>:" in table
    assert "torchvision/<name>:" in table


def test_a_pattern_reaches_the_libraries(capsys) -> None:
    assert main(["models", "*/*mc3*", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["name"] == "torchvision/mc3_18"
    assert entry["parameters"] == 11_695_440
    assert entry["input_size"] == [16, 112, 112]


def test_a_pattern_without_a_match_is_an_error(capsys) -> None:
    assert main(["models", "timm/*no such*"]) == 1
    assert "no network matches 'timm/*no such*'" in capsys.readouterr().err
