"""A picture with its controls: what a slider's move redraws, what is read back, what is said about bad settings."""

import base64
import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

import ipywidgets
from traitlets import TraitError

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.report.looks import Picture, file_bytes
from fedcopl_lab.widgets._redraw import DPI, WIDTH, PngPainter, Readout, Scene

P = TypeVar("P")
Number = int | float
_LOOK: dict[str, Any] = {"style": {"description_width": "130px"}, "layout": {"width": "410px"}}


def slider(label: str, value: Number, low: Number, high: Number, step: Number, tip: str, digits: int = 2) -> Any:
    """A number that moves by the arrow keys."""
    return ipywidgets.FloatSlider(value, min=low, max=high, step=step, description=label, tooltip=tip,
                                  readout_format=f".{digits}f", **_LOOK)  # fmt: skip


def log_slider(label: str, value: Number, low: Number, high: Number, step: Number, tip: str) -> Any:
    """A positive number that moves by equal factors; ``low``, ``high`` and ``step`` are powers of ten."""
    return ipywidgets.FloatLogSlider(value, base=10, min=low, max=high, step=step, description=label, tooltip=tip,
                                     readout_format=".3g", **_LOOK)  # fmt: skip


def int_slider(label: str, value: int, low: int, high: int, tip: str) -> Any:
    """A whole number that moves by the arrow keys."""
    return ipywidgets.IntSlider(value, min=low, max=high, description=label, tooltip=tip, **_LOOK)


def dropdown(label: str, value: Any, options: Iterable[Any], tip: str) -> Any:
    """One of a few; options are values, or pairs of a label and a value."""
    return ipywidgets.Dropdown(options=list(options), value=value, description=label, tooltip=tip, **_LOOK)


class Explorer(Generic[P]):
    """A picture with controls; display it, or use it from Python without a browser.

    Settings that cannot be drawn are explained in the line under the picture, which then keeps showing the last
    ones that could; nothing is raised into the notebook.

    Args:
        name: one word, for style sheets and ``repr``.
        scene: what draws.
        params: where to start.
        controls: an ipywidgets control for every field of the parameters.
        extra: further widgets in the row of controls, such as a play button.
        settle: what a control's move means where it makes another control's value impossible; None takes it as it is.
        adapt: called with the parameters after each move, to switch controls on and off.

    Attributes:
        error: why the last parameters could not be drawn; None when they were.
        message: the same in words, or what to know about the parameters; empty otherwise.

    >>> explorer = lab.widgets.explore_partition()
    >>> explorer.set(beta=1.0)
    >>> explorer.params.beta, explorer.numbers["redraws"], explorer.message
    (1.0, 0, '')

    Shown in notebook ``explore``.
    """

    def __init__(
        self, name: str, scene: Scene[P], params: P, controls: Mapping[str, Any], extra: tuple[Any, ...] = (),
        settle: Callable[[P], P] | None = None, adapt: Callable[[P], None] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.controls, self._scene = name, dict(controls), scene
        self._settle, self._adapt, self._setting_controls = settle, adapt, False
        self._painter, self._readout = PngPainter(scene.figure), Readout("")
        self._params: P = params
        self._drawn: P | None = None
        self.error: Exception | None = None
        self.message = ""
        layout = {"max_width": "100%", "width": f"{round(WIDTH * DPI)}px"}
        self._picture = ipywidgets.Image(format="png", layout=layout)
        self._words, self._alert = ipywidgets.HTML(), ipywidgets.HTML()
        rows = ipywidgets.HBox([*self.controls.values(), *extra], layout={"flex_flow": "row wrap"})
        self.box = ipywidgets.VBox([rows, self._picture, self._words, self._alert])
        parts = {"picture": self._picture, "readout": self._words, "message": self._alert}
        for part, widget in {**parts, "explorer": self.box, name: self.box}.items():
            widget.add_class(f"fedcopl-{part}")
        for key, control in self.controls.items():
            control.observe(partial(self._on_move, key), names="value")
        drawn = self._redraw(params)
        self._adapt_controls()
        if drawn:
            self._set_controls()

    # what Python reads and sets

    @property
    def params(self) -> P:
        """The parameters, a frozen dataclass; set it to move the controls and the picture."""
        return self._params

    @params.setter
    def params(self, params: P) -> None:
        if self._redraw(params):
            self._params = params
            self._adapt_controls()
            self._set_controls()

    @property
    def state(self) -> dict[str, Any]:
        """The parameters as plain values, to keep and to set again."""
        return asdict(self._params)  # type: ignore[call-overload]

    @state.setter
    def state(self, state: Mapping[str, Any]) -> None:
        self.set(**state)

    def set(self, **changes: Any) -> None:
        """Change some parameters by name; the others stay, and where that cannot be drawn nothing changes."""
        known = [one.name for one in fields(self._params)]  # type: ignore[arg-type]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            self._say(f"there is no {', '.join(unknown)} to set; this explorer has {', '.join(known)}")
            return
        self.params = replace(self._params, **changes)  # type: ignore[type-var]

    @property
    def numbers(self) -> dict[str, Any]:
        """What the picture shows, as plain values."""
        return dict(self._readout.numbers)

    @property
    def readout(self) -> str:
        """What the picture shows, in words."""
        return self._readout.text

    @property
    def png(self) -> bytes:
        """The picture as it is shown."""
        return bytes(self._picture.value)

    @property
    def figure(self) -> Picture:
        """The matplotlib figure of the picture; it changes with the controls."""
        return self._scene.figure

    def __repr__(self) -> str:
        return f"Explorer({self.name}: {', '.join(f'{key}={value!r}' for key, value in self.state.items())})"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live controls where there is a kernel, a still picture everywhere else."""
        still = base64.b64encode(file_bytes(self.figure, "png")).decode()
        live = self.box._repr_mimebundle_() or {}
        width, height = (round(DPI * inches) for inches in self.figure.get_size_inches())
        return {**live, "text/plain": repr(self), "image/png": still}, {"image/png": {"width": width, "height": height}}

    # what a move of a control does

    def _on_move(self, key: str, change: Any) -> None:
        """A control has a new value: take it over and redraw."""
        if self._setting_controls:
            return
        asked = replace(self._params, **{key: change["new"]})  # type: ignore[type-var]
        self._params = asked if self._settle is None else self._settle(asked)
        drawn = self._redraw(self._params)
        self._adapt_controls()
        if drawn and self._params != asked:
            self._set_controls()

    def _redraw(self, params: P) -> bool:
        """Show the picture and the words for these parameters; False, with a message, where they cannot be drawn."""
        try:
            readout = self._scene.show(params, self._drawn)
            picture = self._painter.png()
        except Exception as error:  # a notebook's reader must never meet a traceback of ours; `error` keeps it
            self.error = error
            known = isinstance(error, FedCoPLError)
            reason = f"{error}." if known else f"This could not be drawn ({type(error).__name__}: {error})."
            self._say(f"{reason} The picture shows the settings before.")
            return False
        self.error, self._drawn, self._readout = None, params, readout
        self._picture.value = picture
        self._words.value = f'<div role="status" aria-live="polite">{html.escape(readout.text)}</div>'
        self._say(readout.note)
        return True

    def _adapt_controls(self) -> None:
        """Switch controls on and off by what is asked for, also where it cannot be drawn: one is the way out."""
        if self._adapt:
            with self._without_redraw():
                self._adapt(self._params)

    def _set_controls(self) -> None:
        """Show the parameters in the controls."""
        with self._without_redraw():
            for key, control in self.controls.items():
                value = getattr(self._params, key)
                with suppress(TraitError):  # a slider takes its end instead
                    control.value = value
                if control.value != value:
                    self._say(f"{key}={value!r} is drawn, but its control cannot show it")

    @contextmanager
    def _without_redraw(self) -> Iterator[None]:
        """Controls that are set here do not redraw."""
        self._setting_controls = True
        try:
            yield
        finally:
            self._setting_controls = False

    def _say(self, text: str) -> None:
        self.message = text
        mark = f'<div role="alert" style="color:#9a3b00">{html.escape(text)}</div>' if text else ""
        if self._alert.value != mark:
            self._alert.value = mark
