"""A client's side."""

from fedcopl_lab.extras.federation.flower import client_app

app = client_app()
