"""The server's side."""

from fedcopl_lab.extras.federation.flower import server_app

app = server_app()
