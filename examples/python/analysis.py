"""Data analysis: a program reads a dataset, and leaves a summary and a figure, which are saved here as files.

The figure is an SVG that the program writes by hand. With matplotlib, it would call `savefig`.

It prints:

    figure.svg image/svg+xml
    summary.json application/json
    {'days': 365, 'mean': 12.0, 'warmest': 'July'}
"""

import json
import math
import tempfile
from pathlib import Path

from thermae import Sandbox

PROGRAM = """
import csv, datetime, json, statistics

months = {}
with open("/data/weather/days.csv") as file:
    for row in csv.DictReader(file):
        months.setdefault(datetime.date.fromisoformat(row["day"]).strftime("%B"), []).append(float(row["degrees"]))
means = {month: statistics.fmean(degrees) for month, degrees in months.items()}

bars = "".join(
    f'<rect x="{20 * n}" y="{200 - 8 * mean:.1f}" width="16" height="{8 * mean:.1f}"><title>{month}</title></rect>'
    for n, (month, mean) in enumerate(means.items())
)
with open("artifacts/figure.svg", "w") as file:
    file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="240" height="200" fill="teal">{bars}</svg>')

every = [degree for degrees in months.values() for degree in degrees]
summary = {"days": len(every), "mean": round(statistics.fmean(every), 1), "warmest": max(means, key=means.get)}
with open("artifacts/summary.json", "w") as file:
    json.dump(summary, file)
"""


def write_dataset(folder: Path) -> None:
    """Writes a year of daily temperatures."""
    from datetime import date, timedelta

    days = [date(2025, 1, 1) + timedelta(n) for n in range(365)]
    degrees = [12 - 10 * math.cos(2 * math.pi * (n - 15) / 365) for n in range(365)]
    rows = (f"{day},{degree:.3f}\n" for day, degree in zip(days, degrees, strict=True))
    (folder / "days.csv").write_text("day,degrees\n" + "".join(rows))


with tempfile.TemporaryDirectory() as temporary:
    data, out = Path(temporary, "data"), Path(temporary, "out")
    data.mkdir()
    out.mkdir()
    write_dataset(data)
    with Sandbox("embedded", datasets={"weather": data}) as box:
        result = box.run(PROGRAM, check=True)
        for artifact in sorted(result.artifacts, key=lambda one: one.name):
            artifact.save(out)
            print(artifact.name, artifact.media_type)
    print(json.loads((out / "summary.json").read_text()))
    assert (out / "figure.svg").read_text().count("<rect") == 12
