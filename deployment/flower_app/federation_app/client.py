"""A client's side."""

from fedcopl_lab.engine.flower import client_app

app = client_app()
