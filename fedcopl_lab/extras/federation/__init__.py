"""A federation of separate clients: what crosses the wire, which machine keeps what, and how it becomes a stored run.

Independent of what carries the letters: ``flower`` brings them over a network, ``Loopback`` inside one process.
"""

from fedcopl_lab._lazy import lazy_names

_NAMES = {
    "fedcopl_lab.methods.protocol": "Answer Letter",
    "._federation_files": "ClientImages Terms check_federable client_folder split",
    "._member": "Journal Member open_member",
    "._serve": "Loopback serve",
    "._virtual": "VirtualClients measure_virtual virtual_terms",
    "._collect": "collect",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
