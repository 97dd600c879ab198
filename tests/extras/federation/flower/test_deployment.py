"""SuperLink and three SuperNodes as processes of their own, with TLS and node keys, each with one client's files."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stored_bytes import promised_bytes

import fedcopl_lab as lab
from fedcopl_lab._files import read_json
from fedcopl_lab.extras.federation import Journal, client_folder, collect, split
from fedcopl_lab.store import Run, Store

pytest.importorskip("flwr", reason="the extra cluster is not installed")
pytestmark = [pytest.mark.cluster, pytest.mark.long]

ROOT = Path(__file__).parents[4]
BIN = Path(sys.executable).parent
PROMPTS = {"rounds": 1, "local_epochs": 1, "refresh_every": 0, "n_clients": 3, "clients_per_forward": 1}
MODELS = {
    "rounds": 2, "width": 0.25, "n_probe": 20, "steps_per_epoch": 2, "threshold": 0.5, "n_clients": 3,
    "participation": 1.0, "clients_per_forward": 1,
}  # fmt: skip
TIME_BOX = 420  # seconds for one federation; a process is started for every message


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Deployment:
    """A SuperLink and its nodes; ``home`` holds keys, logs and every machine's folder."""

    def __init__(self, home):
        self.home, self.processes = home, {}
        self.port = free_port()
        keys = home / "keys"
        if not keys.is_dir():
            script = ROOT / "deployment" / "keys.sh"
            subprocess.run(["bash", str(script), str(keys), "localhost", "3"], check=True, capture_output=True)
        self.start(
            "superlink", "flower-superlink", "--port", self.port, "--enable-supernode-auth",
            "--disable-runtime-dependency-installation", "--ssl-certfile", keys / "server.crt",
            "--ssl-keyfile", keys / "server.key", "--ssl-ca-certfile", keys / "ca.crt",
        )  # fmt: skip
        (home / "flwr").mkdir(exist_ok=True)
        (home / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "lab"\n[superlink.lab]\naddress = "127.0.0.1:{self.port}"\n'
            f'root-certificates = "{keys / "ca.crt"}"\n'
        )
        for k in range(3):
            self.until(lambda k=k: self.flwr("supernode", "register", keys / f"client-{k:04d}.pub", "lab"), 120)
            self.start_node(k)

    def start_node(self, k):
        self.start(
            f"node {k}", "flower-supernode", "--superlink", f"127.0.0.1:{self.port}", "--root-certificates",
            self.home / "keys" / "ca.crt", "--auth-supernode-private-key", self.home / "keys" / f"client-{k:04d}",
            "--port", free_port(), "--node-config", f'folder="{self.home / f"machine {k}"}"',
        )  # fmt: skip

    def start(self, name, program, *arguments):
        (self.home / "logs").mkdir(exist_ok=True)
        with (self.home / "logs" / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(
                [str(BIN / program), *map(str, arguments)], stdout=log, stderr=log, env=self.environment(name),
                start_new_session=True,
            )  # fmt: skip

    def environment(self, name="flwr"):
        return {
            **os.environ, "FLWR_HOME": str(self.home / name.replace(" ", "-")), "STARTED_BY": str(self.home),
            "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PATH": f"{BIN}:{os.environ['PATH']}",
        }  # fmt: skip

    def flwr(self, *arguments):
        command = [str(BIN / "flwr"), *map(str, arguments)]
        return subprocess.run(command, env=self.environment(), capture_output=True, timeout=60).returncode == 0

    def kill(self, name):
        """The process and all that it started, at once."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def until(self, done, seconds):
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, self.last_words()
            time.sleep(0.2)

    def last_words(self):
        logs = sorted((self.home / "logs").iterdir())
        return "\n".join(f"{log.name}:\n{log.read_text()[-1500:]}" for log in logs)

    def lay_out(self, config, name):
        """Everybody's files on their machines; the server's folder."""
        folders = split(config, self.home / "split" / name)
        for k in range(3):
            shutil.move(folders[1 + k], self.home / f"machine {k}" / name)
        return folders[0]

    def launch(self, server, name):
        settings = f'server-folder="{server}" federation="{name}" patience=200.0'
        assert self.flwr("run", ROOT / "deployment" / "flower_app", "lab", "--run-config", settings), self.last_words()

    def clients(self, name):
        return [self.home / f"machine {k}" / name for k in range(3)]


@pytest.fixture(scope="module")
def deployment(tmp_path_factory, end_all):
    home = tmp_path_factory.mktemp("deployment")
    try:
        one = Deployment(home)
        yield one
        for name in list(one.processes):
            one.kill(name)
    finally:
        end_all(str(home), 0.0)


def config_of(method, **changes):
    return lab.configure("smoke", method=method, **{**(MODELS if method == "SAGE" else PROMPTS), **changes})


@pytest.mark.parametrize("method", ["PromptFL", "SAGE"])
def test_three_machines_store_the_bytes_of_one_process(tmp_path, deployment, method):
    config = config_of(method)
    server = deployment.lay_out(config, method)
    deployment.launch(server, method)
    deployment.until(lambda: Run(server / "log").complete, TIME_BOX)
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    collected = collect(server, deployment.clients(method), Store(tmp_path / "collected"))
    assert promised_bytes(collected) == promised_bytes(local)
    if method == "PromptFL":
        assert read_json(server / "closing.json")["accuracy"] == pytest.approx(local.result["accuracy"])


def test_fedcopl_stores_them_though_a_node_and_the_server_are_killed(tmp_path, deployment):
    config = config_of("FedCoPL", seed=1, rounds=2)
    server = deployment.lay_out(config, "broken")
    deployment.launch(server, "broken")
    journal = Journal(deployment.clients("broken")[1] / "journal")
    deployment.until(lambda: 0 in journal.rounds("train"), TIME_BOX)
    text = journal.read("train", 0)["text"]
    deployment.kill("node 1")
    deployment.kill("superlink")
    for name in ("node 0", "node 2"):
        deployment.kill(name)
    again = Deployment(deployment.home)
    deployment.processes.update(again.processes)
    again.launch(server, "broken")
    again.until(lambda: Run(server / "log").complete, TIME_BOX)
    assert (journal.read("train", 0)["text"] == text).all()
    local = lab.run(config, Store(tmp_path / "local"), progress=False)
    collected = collect(server, again.clients("broken"), Store(tmp_path / "collected"))
    assert promised_bytes(collected) == promised_bytes(local)


def test_a_machine_holds_no_other_clients_images(deployment):
    deployment.lay_out(config_of("PromptFL"), "apart")
    held = [read_json(folder / "client.json") for folder in deployment.clients("apart")]
    positions = [{*one["train"], *one["test"]} for one in held]
    assert sum(map(len, positions)) == len(set.union(*positions))
    assert not client_folder(deployment.home / "split" / "apart", 0).exists()
