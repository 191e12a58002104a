from pretrained_2d.training.outputs.metrics_log import MetricsLog, read_metrics


def test_a_resumed_run_cuts_off_what_came_after_its_state(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1})
    size = log.size()
    log.append({"step": 2})
    log.cut(size)
    log.append({"step": 2, "again": True})
    assert read_metrics(log.path) == [{"step": 1}, {"step": 2, "again": True}]


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1})
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert read_metrics(log.path) == [{"step": 1}]


def test_a_missing_log_has_zero_bytes(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.size() == 0
    log.cut(0)
    assert not log.path.exists()
