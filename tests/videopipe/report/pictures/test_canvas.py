from videopipe.report.pictures.canvas import Canvas


def test_coordinates_are_short_and_labels_whole() -> None:
    with Canvas("small", "small numbers", "small numbers") as canvas:
        canvas.axes.plot([0, 1 / 3, 1], [0.0, 0.0121, 0.025])
        canvas.axes.set_yticks([0.0, 0.0125, 0.025], ["0", "0.0125", "0.025"])
    svg = canvas.picture.svg
    assert ">0.0125<" in svg
    assert ">0.025<" in svg
    path = svg.split(' d="')[5].split('"')[0]
    assert all(len(word.partition(".")[2]) <= 2 for word in path.split())
