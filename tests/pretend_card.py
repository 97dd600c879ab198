"""A graphics card that is not there: torch runs on ``device="cuda"`` without one, and writes down each wait for it.

Tensors on the card are torch's fake tensors: shapes, types and devices without values. Tensors on the CPU are real.
What reads a value from the card, or copies to it from memory that is not pinned, would make the program wait for the
card; each such place is recorded, and the read gets a made-up value so that the work goes on. Tensors of two devices
in one operation raise what torch raises on a card.
"""

import linecache
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

LIBRARY = Path(__file__).parents[1] / "fedcopl_lab"
ATEN = torch.ops.aten
BY_VALUE = {ATEN.nonzero.default, ATEN.masked_select.default, ATEN.bincount.default}
UNIQUE = {ATEN._unique2.default}
FAKE = FakeTensorMode(allow_non_fake_inputs=True)
READS = {ATEN._local_scalar_dense.default, ATEN.equal.default}
STEPS = {
    "_train_together", "joint_step", "two_copies_step", "crosswise_step", "regulated_step", "two_part_step", "both",
    "labelled_only",
}  # fmt: skip
"""Functions of the library that are a training step, or make its batch."""
BETWEEN_STEPS = {"_close_epoch"}
COPIES = {ATEN._to_copy.default, ATEN.copy_.default}
INDEXED = {ATEN.index.Tensor, ATEN.index_put_.default, ATEN.index_put.default}


class PretendCard(TorchDispatchMode):
    """Runs what touches the card on fake tensors, everything else for real.

    Attributes:
        waits: (kind, file:function of the library) -> how often it was reached outside a training step.
        in_steps: the same inside one, or while its batch is made.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[tuple[str, str]] = Counter()
        self.in_steps: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        on_card = [one for one in tensors if one.device.type == "cuda"]
        target = kwargs.get("device")
        makes_card = target is not None and torch.device(target).type == "cuda"
        if not on_card and not makes_card:
            return self._really(func, args, kwargs)
        if func in READS or func is ATEN.is_nonzero.default:
            return self._read(func, on_card[0])
        if func in COPIES and self._crosses(func, tensors, target):
            return self._copy(func, args, kwargs, tensors, target)
        if func in BY_VALUE | UNIQUE:
            return self._of_unknown_size(func, args)
        if func is ATEN._fused_sgd_.default:  # has no form for fake tensors
            assert all(one.device.type == "cuda" for one in tensors), "parameters, slopes or momentum on two devices"
            return None
        if func in INDEXED:
            args = self._indexed(func, args)
        if makes_card and func is ATEN.lift_fresh.default:
            self._wait("to the card")
        with FAKE:
            return func(*args, **kwargs)

    def _really(self, func, args, kwargs):
        if kwargs.get("pin_memory"):  # which a machine without a card cannot do
            kwargs = kwargs | {"pin_memory": False}
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def _crosses(self, func, tensors, target):
        ends = tensors[:2] if func is ATEN.copy_.default else [tensors[0]]
        devices = {one.device.type for one in ends} | ({torch.device(target).type} if target is not None else set())
        return len(devices) > 1

    def _copy(self, func, args, kwargs, tensors, target):
        waits = not kwargs.get("non_blocking", False) and not (func is ATEN.copy_.default and len(args) > 2 and args[2])
        source = tensors[1] if func is ATEN.copy_.default else tensors[0]
        to_card = source.device.type == "cpu"
        if waits or not to_card:
            self._wait("to the card" if to_card else "to the CPU")
        if to_card:
            with FAKE:
                return func(*args, **kwargs)
        made = made_up(source, kwargs.get("dtype") or source.dtype)
        with unset_fake_temporarily():
            return tensors[0].copy_(made) if func is ATEN.copy_.default else made

    def _read(self, func, tensor):
        file, line = self._wait("value")
        if func is ATEN.equal.default or tensor.dtype is torch.bool:
            return "all(" in linecache.getline(str(LIBRARY / file), line)  # what a check hopes for
        return 1.0 if tensor.is_floating_point() else 0

    def _of_unknown_size(self, func, args):
        self._wait("size")
        source = args[0]
        with FAKE:
            if func is ATEN.nonzero.default:
                return source.new_zeros((max(source.numel(), 1), source.ndim), dtype=torch.long)
            if func is ATEN.bincount.default:
                return source.new_zeros(args[2] if len(args) > 2 else 1, dtype=torch.long)
            if func is ATEN.masked_select.default:
                return source.new_zeros(source.numel())
            whole = torch.zeros_like(source, dtype=torch.long)
            return source.flatten().clone(), whole, whole.flatten().clone()

    def _indexed(self, func, args):
        own, places = args[0], []
        for place in args[1]:
            if place is not None and place.dtype in (torch.bool, torch.uint8):
                self._wait("size")
                with FAKE:
                    place = torch.zeros(place.shape[0], dtype=torch.long, device=own.device)
            elif place is not None and place.device != own.device:
                self._wait("to the card" if own.device.type == "cuda" else "to the CPU")
                if own.device.type == "cpu":
                    raise RuntimeError("a tensor on the CPU is indexed by one on the card")
            places.append(place)
        return (own, places, *args[2:])

    def _wait(self, kind):
        (file, function, line), functions = place_in_library()
        record = self.in_steps if functions & STEPS and not functions & BETWEEN_STEPS else self.waits
        record[kind, f"{file}:{function}"] += 1
        return file, line


def place_in_library() -> tuple[tuple[str, str, int], set[str]]:
    """File, function and line of the innermost part of the library that is being run, and all functions around it."""
    frame, own = sys._getframe(), []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(str(LIBRARY)):
            own.append((code.co_filename.removeprefix(f"{LIBRARY}/"), code.co_name, frame.f_lineno))
        frame = frame.f_back
    return own[0] if own else ("", "test", 0), {function for _, function, _ in own}


def made_up(tensor, dtype):
    """Values for a tensor whose own nobody knows: small positive floats, zeros otherwise."""
    with unset_fake_temporarily():
        shape = tuple(tensor.shape)
        if dtype.is_floating_point:
            return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(dtype)
        return torch.zeros(shape, dtype=dtype)


def moved(module, change, recurse=True):
    """``Module._apply`` that puts new parameters in place, since a fake one cannot take a real one's memory."""
    for child in module.children() if recurse else ():
        moved(child, change)
    for name, value in module._parameters.items():
        if value is not None:
            module._parameters[name] = torch.nn.Parameter(change(value.detach()), value.requires_grad)
    for name, value in module._buffers.items():
        if value is not None:
            module._buffers[name] = change(value)
    return module


def gradients(roots, wanted=None, create_graph=False):
    """Backward pass node by node: torch's own engine asks the driver for a device. None for ``wanted``: all leaves."""
    edges = [] if wanted is None else [torch.autograd.graph.get_gradient_edge(one) for one in wanted]
    received, found = defaultdict(dict), {}
    for root in roots:
        add(received[root.grad_fn], root.output_nr, torch.ones_like(root))
    with torch.set_grad_enabled(create_graph):
        for node in in_order(roots):
            own = received.pop(node, {})
            if type(node).__name__ == "AccumulateGrad":
                found[node, 0] = own.get(0)
                continue
            found |= {(node, edge.output_nr): own.get(edge.output_nr) for edge in edges if edge.node is node}
            sent = node(*(own.get(place) for place in range(len(node._input_metadata)))) if own else None
            sent = sent if isinstance(sent, tuple) else (sent,) * len(node.next_functions)
            for (after, place), value in zip(node.next_functions, sent, strict=True):
                if after is not None and value is not None:
                    add(received[after], place, as_expected(after, place, value))
    if wanted is not None:
        return tuple(found[edge.node, edge.output_nr] for edge in edges)
    for (node, _), value in found.items():
        if value is not None:
            with torch.no_grad():
                node.variable.grad = value if node.variable.grad is None else node.variable.grad + value
    return None


def in_order(roots):
    """The nodes behind some losses, each after all that it receives from."""
    waiting, stack, seen = Counter(), [root.grad_fn for root in roots], set()
    ready = list(dict.fromkeys(stack))
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            behind = [after for after, _ in node.next_functions if after is not None]
            waiting.update(behind)
            stack += behind
    ready = [node for node in ready if not waiting[node]]
    while ready:
        node = ready.pop()
        yield node
        for after, _ in node.next_functions:
            if after is not None:
                waiting[after] -= 1
                if not waiting[after]:
                    ready.append(after)


def as_expected(node, place, value):
    """As torch's engine hands a gradient on: summed over what was broadcast, in the type of what it belongs to."""
    accumulates = type(node).__name__ == "AccumulateGrad"
    like = node.variable if accumulates else node._input_metadata[place]
    return value.sum_to_size(like.shape).to(like.dtype)


def add(sums, place, value):
    sums[place] = sums[place] + value if place in sums else value


def backward(tensors, *args, **kwargs):
    gradients([tensors] if isinstance(tensors, torch.Tensor) else list(tensors))


def grad(outputs, inputs, *args, create_graph=False, **kwargs):
    return gradients([outputs], list(inputs), create_graph)


@contextmanager
def pretend_card(memory=24_000_000_000):
    """Run a block with a card of so many bytes that is not there; gives the record of waits."""
    card = PretendCard()
    with ExitStack() as stack:
        for owner, name, made in (
            (torch.nn.Module, "_apply", moved), (torch.autograd, "backward", backward), (torch.autograd, "grad", grad),
            (torch.Tensor, "backward", backward), (torch.Tensor, "pin_memory", lambda self: self),
            (torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=memory)),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(owner, name, made))
        stack.enter_context(FAKE)
        yield stack.enter_context(card)
