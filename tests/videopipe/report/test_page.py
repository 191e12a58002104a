import re

import pytest

from videopipe.report.page import Section, Strip, Table, TextBlock, render, write_page
from videopipe.report.pictures import plots

EVIL = '<script>alert("x")</script>&$5$'


def sections() -> list[Section]:
    rows = [
        (f"row {index}", value) for index, value in enumerate([10, 9, 100, 1, 2.5, 7, 8, 3, 4, 5])
    ]
    points = [(step, 1 / step) for step in range(1, 9)]
    return [
        Section(
            "first",
            "A part",
            text=[EVIL],
            tables=[Table(EVIL, ("name", "number"), rows)],
            pictures=[plots.curves("curve", EVIL, {EVIL: points}, x="step", y="loss")],
            strips=[Strip("data:image/gif;base64,R0lGODlhAQABAAAAACw=", EVIL, EVIL, 1, 1)],
            blocks=[TextBlock(EVIL, EVIL)],
            missing=[EVIL],
        ),
        Section("empty", "Nothing to show"),
    ]


def test_text_that_looks_like_html_stays_text() -> None:
    page = render(EVIL, EVIL, sections())
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;alert") >= 10


def test_a_section_without_content_is_left_out() -> None:
    assert "Nothing to show" not in render("title", "", sections())


def test_pictures_take_the_colour_of_the_page_and_files_do_not(tmp_path) -> None:
    picture = sections()[0].pictures[0]
    assert "currentColor" in picture.svg
    saved = picture.save(tmp_path).read_text()
    assert "currentColor" not in saved
    assert "var(" not in saved
    assert picture.save(tmp_path).with_suffix(".png").read_bytes() == picture.png


def test_every_picture_has_alternative_text() -> None:
    page = render("title", "", sections())
    labels = re.findall(r'role="img" aria-label="([^"]+)"', page)
    assert len(labels) == page.count("<svg") == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [500, 1400])
def test_in_a_browser_tables_sort_and_filter_and_nothing_overflows(tmp_path, browse, width) -> None:
    found = browse(write_page(tmp_path, "title", "", sections()), width)
    assert found["errors"] == []
    assert found["overflow"] == 0
    assert found["ascending"] == ["1", "2.5", "3", "4", "5", "7", "8", "9", "10", "100"]
    assert found["descending"] == found["ascending"][::-1]
    assert found["filtered"] == ["row 2"]
