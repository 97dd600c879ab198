"""A picture with its controls: what moves, what is read back, and what is said when something cannot be drawn."""

import base64
import html
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import ipywidgets
from traitlets import TraitError

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import Picture, file_bytes
from fedcopl_lab.widgets._canvas import DPI, WIDTH, Painter

P = TypeVar("P")
Shows = TypeVar("Shows", contravariant=True)


@dataclass(frozen=True)
class Shown:
    """What a picture shows.

    Attributes:
        text: in words, for the line under the picture.
        numbers: the same as plain values.
        note: what a reader must know beside it, such as a rule that stepped in; empty without.
    """

    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@runtime_checkable
class Scene(Protocol[Shows]):
    """A figure that follows its parameters; the same parameters give the same pixels, however it got there."""

    figure: Picture

    def show(self, params: Shows, previous: Shows | None = None) -> Shown:
        """Change the artists; refuse bad parameters before any of them is touched."""


class Explorer(Generic[P]):
    """A picture with controls; display it, or use it from Python without a browser.

    What cannot be drawn is explained in the line under the picture, which then keeps showing the last
    parameters that could; nothing is raised into the notebook.

    Args:
        name: one word, for style sheets and ``repr``.
        scene: what draws.
        params: where to start.
        controls: an ipywidgets control for every field of the parameters.
        extra: further widgets in the row of controls, such as a play button.
        settle: what a control's move means where it makes another control's value impossible; None takes it as it is.
        adapt: called with the parameters after each move, to switch controls on and off.

    Attributes:
        error: what kept the last parameters from being drawn; None when they were.

    >>> explorer = lab.widgets.explore_thresholds()
    >>> explorer.set(q_conf=0.7)
    >>> explorer.numbers["kept"]

    Shown in notebook ``explore``.
    """

    def __init__(
        self,
        name: str,
        scene: Scene[P],
        params: P,
        controls: Mapping[str, Any],
        extra: tuple[Any, ...] = (),
        settle: Callable[[P], P] | None = None,
        adapt: Callable[[P], None] | None = None,
    ) -> None:
        self.name, self.controls, self._scene = name, dict(controls), scene
        self._settle, self._adapt = settle, adapt
        self._painter = Painter(scene.figure)
        self._params: P = params
        self._drawn: P | None = None
        self._shown = Shown("")
        self._moving = False
        self.error: Exception | None = None
        self._picture = ipywidgets.Image(
            format="png", layout=ipywidgets.Layout(max_width="100%", width=f"{round(WIDTH * DPI)}px"),
        )  # fmt: skip
        self._picture.add_class("fedcopl-picture")
        self._readout, self._message = ipywidgets.HTML(), ipywidgets.HTML()
        for widget, part in ((self._readout, "readout"), (self._message, "message")):
            widget.add_class(f"fedcopl-{part}")
        rows = ipywidgets.HBox([*self.controls.values(), *extra], layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.box = ipywidgets.VBox([rows, self._picture, self._readout, self._message])
        self.box.add_class("fedcopl-explorer")
        self.box.add_class(f"fedcopl-{name}")
        for key, control in self.controls.items():
            control.observe(self._follow(key), names="value")
        self._try(params)
        self._adapt_controls()

    # what Python reads and sets

    @property
    def params(self) -> P:
        """The parameters, a frozen dataclass; set it to move the controls and the picture."""
        return self._params

    @params.setter
    def params(self, params: P) -> None:
        if self._try(params):
            self._params = params
            self._set_controls()
            self._adapt_controls()

    @property
    def state(self) -> dict[str, Any]:
        """The parameters as plain values, to keep and to set again."""
        return asdict(self._params)  # type: ignore[call-overload]

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        self.set(**state)

    def set(self, **changes: Any) -> None:
        """Change some parameters by name, as moving their controls would."""
        known = [one.name for one in fields(self._params)]  # type: ignore[arg-type]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            self._say(f"there is no {', '.join(unknown)} to set; this explorer has {', '.join(known)}")
            return
        self.params = replace(self._params, **changes)  # type: ignore[type-var]

    @property
    def numbers(self) -> dict[str, Any]:
        """What the picture shows, as plain values."""
        return dict(self._shown.numbers)

    @property
    def readout(self) -> str:
        """What the picture shows, in words."""
        return self._shown.text

    @property
    def message(self) -> str:
        """Why the last parameters could not be drawn, or what to know about them; empty otherwise."""
        return html.unescape(_without_tags(self._message.value))

    @property
    def png(self) -> bytes:
        """The picture as it is shown."""
        return bytes(self._picture.value)

    @property
    def figure(self) -> Picture:
        """The figure behind the picture; it changes with the controls."""
        return self._scene.figure

    def __repr__(self) -> str:
        return f"Explorer({self.name}: {', '.join(f'{key}={value!r}' for key, value in self.state.items())})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live controls where there is a kernel, a still picture everywhere else."""
        still = base64.b64encode(file_bytes(self.figure, "png")).decode()
        live = self.box._repr_mimebundle_() or {}
        width, height = (round(DPI * inches) for inches in self.figure.get_size_inches())
        return {**live, "text/plain": repr(self), "image/png": still}, {"image/png": {"width": width, "height": height}}

    # what a move does

    def _follow(self, key: str) -> Callable[[Any], None]:
        def moved(change: Any) -> None:
            if not self._moving:
                asked = replace(self._params, **{key: change["new"]})  # type: ignore[type-var]
                self._params = asked if self._settle is None else self._settle(asked)
                drawn = self._try(self._params)
                self._adapt_controls()
                if drawn and self._params != asked:
                    self._set_controls()

        return moved

    def _try(self, params: P) -> bool:
        try:
            shown = self._scene.show(params, self._drawn)
            picture = self._painter.png()
        except FedCoPLError as error:
            self.error = error
            self._say(f"{error}. The picture shows the settings before.")
            return False
        except Exception as error:  # a notebook's reader must never meet a traceback of ours; `error` keeps it
            self.error = error
            self._say(
                f"This could not be drawn ({type(error).__name__}: {error}). The picture shows the settings before."
            )
            return False
        self.error = None
        self._drawn, self._shown = params, shown
        self._picture.value = picture
        self._readout.value = f'<div role="status" aria-live="polite">{html.escape(shown.text)}</div>'
        self._say(shown.note)
        return True

    def _adapt_controls(self) -> None:
        """Switch controls on and off by what is asked for, also where it cannot be drawn: one is the way out."""
        if self._adapt:
            with self._quietly():
                self._adapt(self._params)

    def _say(self, text: str) -> None:
        mark = f'<div role="alert" style="color:#9a3b00">{html.escape(text)}</div>' if text else ""
        if self._message.value != mark:
            self._message.value = mark

    def _set_controls(self) -> None:
        with self._quietly():
            for key, control in self.controls.items():
                value = getattr(self._params, key)
                try:
                    control.value = value
                except TraitError:
                    self._say(f"{key}={value!r} is drawn, but its control cannot show it")

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        self._moving = True
        try:
            yield
        finally:
            self._moving = False


def _without_tags(text: str) -> str:
    return text.partition(">")[2].rpartition("<")[0]
