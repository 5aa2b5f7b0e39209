def test_the_most_fragile_rows_come_first(report):
    order = report.samples.most_fragile()
    assert sorted(order.tolist()) == list(range(24))
    lost = (1 - report.samples.precision).sum(0)[order]
    assert (lost[:-1] >= lost[1:] - 1e-9).all()
