import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from tests.processes import run

PROGRAM = Path(__file__).with_name("embedding_memory.py")
MEBIBYTE = 2**20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_number_of_embeddings(tmp_path):
    peaks = {}
    for count in (40_000, 160_000):  # 80 and 320 MB
        folder = tmp_path / str(count)
        folder.mkdir()
        peaks[count] = int(run([sys.executable, PROGRAM, folder, str(count)]))
        print(f"{count} embeddings: {peaks[count] / MEBIBYTE:.0f} MiB more")
    # Four times the rows may take the keys of the rows more, not their vectors (240 MB more).
    assert peaks[160_000] - peaks[40_000] < 100 * MEBIBYTE
    file = parquet.ParquetFile(tmp_path / "160000" / "all.parquet")
    assert file.metadata.num_rows == 160_000
    first = file.read_row_group(0)
    assert first["id"][0].as_py() == f"{159_999:016x}"
    np.testing.assert_array_equal(first["embedding"][0].as_py(), [159_999 % 1000] * 1024)
