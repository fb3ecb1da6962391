"""A person who walks through a studio by its forms, without a server."""

import csv
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the page needs noisette[web]")

with warnings.catch_warnings():  # starlette would rather have the successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from noisette.app.studio.app import application
from noisette.app.studio.guard import Keys

HOST = "127.0.0.1:8000"
ORIGIN = {"Origin": f"http://{HOST}"}
SECRET = "xq7secretcell"


def write_patients(path, n=2500, seed=0):
    """Write invented patients; every ward and name is a word that no page may show."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 95, n)
    ward = rng.choice([f"{SECRET}A", f"{SECRET}B"], n)
    ill = np.where(rng.random(n) < 1 / (1 + np.exp(-0.1 * (age - 60))), "yes", "no")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient_id", "age", "ward", "ill"])
        writer.writerows(zip([f"{SECRET}{k}" for k in range(n)], age, ward, ill, strict=True))
    return path


class Person:
    """Sends forms as the page would, and remembers all that was shown."""

    def __init__(self, folder):
        self.folder, self.keys = folder, Keys()
        self.app, self.runs = application(folder, self.keys, HOST)
        self.client = TestClient(self.app, base_url=f"http://{HOST}", follow_redirects=True)
        self.seen = []

    def come_in(self):
        self.client.get("/", params={"token": self.keys.token})
        self.get("")
        return self

    def get(self, path, /):
        self.page = self.client.get(f"{self.keys.base}/{path}")
        self.seen.append(self.page.text)
        return self.page

    def post(self, path, /, **form):
        form = {key.replace("_", "-"): value for key, value in form.items()}
        self.page = self.client.post(
            f"{self.keys.base}/{path}", data={"csrf": self.keys.form, **form}, headers=ORIGIN
        )
        self.seen.append(self.page.text)
        return self.page

    @property
    def walk(self):
        return re.search(r"/w/([\w-]+)/", self.page.text)[1]

    @property
    def order(self):
        return re.search(r'name="order" value="([\w-]+)"', self.page.text)[1]

    @property
    def error(self):
        found = re.search(r'role="alert"[^>]*>(?:<strong>Not yet:</strong> )?<bdi>(.*?)</bdi>',
                          self.page.text, re.S)  # fmt: skip
        return found[1] if found else ""

    # --- the steps, as an ordinary person does them ---
    def choose(self, path, **more):
        return self.post("table", path=str(path), **more)

    def say_facts(self, **changes):
        form = {"target": "3", "classes": "no, yes", "unit": "row", "kind_1": "numeric",
                "kind_2": "categorical", "kind_0": "ignore"}  # fmt: skip
        return self.post(f"w/{self.walk}/facts", **form | changes)

    def give_budget(self, **changes):
        form = {"epsilon": "2", "delta": "1e-6", "rows": "2500", "test": "no"}
        return self.post(f"w/{self.walk}/budget", **form | changes)

    def take_ledger(self, **changes):
        form = {"choice": "start", "start": "p.ledger", "total_epsilon": "2",
                "total_delta": "1e-6"}  # fmt: skip
        return self.post(f"w/{self.walk}/ledger", **form | changes)

    def walk_to_training(self, path, **ledger):
        self.choose(path)
        self.say_facts()
        self.give_budget()
        self.take_ledger(**ledger)
        assert "Train the model" in self.page.text, self.error
        return self

    def train(self, **more):
        return self.post(f"w/{self.walk}/train", order=self.order, **more)
