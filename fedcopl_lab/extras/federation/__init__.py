"""A federation of separate clients: what crosses the wire, which machine keeps what, and how it becomes a stored run.

Independent of what carries the letters: ``flower`` brings them over a network, ``Loopback`` inside one process.
"""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Answer", "Letter"), "fedcopl_lab.methods.protocol"),
        **dict.fromkeys(("ClientImages", "Terms", "check_federable", "client_folder", "split"), "._federation_files"),
        **dict.fromkeys(("Journal", "Member", "open_member"), "._member"),
        **dict.fromkeys(("Loopback", "serve"), "._serve"),
        **dict.fromkeys(("VirtualClients", "measure_virtual", "virtual_terms"), "._virtual"),
        "collect": "._collect",
    },
)
