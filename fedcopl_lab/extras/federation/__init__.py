"""A federation of separate clients: what crosses the wire, who keeps what, and how it becomes a stored run.

Independent of what carries the letters: ``flower`` brings them over a network, ``Loopback`` inside one process.
"""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Answer": "._letters",
        "Letter": "._letters",
        "Loopback": "._serve",
        "Member": "._member",
        "Terms": "._shards",
        "check_federable": "._supported",
        "client_folder": "._shards",
        "collect": "._collect",
        "open_member": "._member",
        "serve": "._serve",
        "split": "._shards",
        "measure_virtual": "._virtual",
        "VirtualClients": "._virtual",
        "virtual_terms": "._virtual",
    },
)
