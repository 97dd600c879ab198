"""The server's side."""

from fedcopl_lab.engine.flower import server_app

app = server_app()
