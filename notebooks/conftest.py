"""How nbval compares: everything but stderr, where other machines print warnings of their own (`tools/notebooks.py` refuses to
save a notebook that writes there)."""


def pytest_collectstart(collector):
    if collector.__class__.__name__ == "IPyNbFile":
        collector.skip_compare += ("stderr",)
