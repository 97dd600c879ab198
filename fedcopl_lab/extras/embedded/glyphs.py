"""Printed digits drawn from matplotlib's fonts, distorted, and reduced to 8×8 as scikit-learn's digits were.

Each glyph is kept as a signed distance field (positive inside the ink, in glyph heights): adding a constant
to it changes the stroke width, sampling it on a bent grid bends the glyph, and both stay sharp.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from fedcopl_lab._errors import FedCoPLError

_TRAIN_FACES = (
    "DejaVuSans DejaVuSans-Bold DejaVuSans-Oblique DejaVuSansMono DejaVuSansMono-Bold DejaVuSansMono-BoldOblique "
    "DejaVuSansMono-Oblique DejaVuSerif DejaVuSerif-Bold DejaVuSerif-Italic STIXGeneral STIXGeneralBol "
    "STIXGeneralItalic cmb10 cmmi10 cmr10 cmti10 cmtt10"
)
TRAIN_FACES = tuple(_TRAIN_FACES.split())
"""Faces the model is trained on: those of matplotlib's files whose digits have ordinary shapes."""

HELD_OUT_FACES = ("DejaVuSans-BoldOblique", "DejaVuSerif-BoldItalic", "STIXGeneralBolIta", "cmss10")
"""Faces the model never sees; the recipe was chosen on them."""

SERIF_FACES = tuple(
    face for face in TRAIN_FACES if face.startswith(("DejaVuSerif", "STIX", "cmb", "cmmi", "cmr", "cmti"))
)
SANS_FACES = tuple(face for face in TRAIN_FACES if face.startswith("DejaVuSans"))
"""Faces with and without serifs; the others are called neither."""

TRAITS = ("stroke", "slant", "turn", "stretch", "bend", "serif")
"""What is known of every glyph beside its digit, as :class:`Distortion` measures it (the width's stretch as a
logarithm); serif: 1 with, -1 without, 0 for other faces."""

_CANVAS = 96  # pixels of a distance field
_GLYPH_HEIGHT = 64  # pixels of ink inside the canvas; the rest is room to thicken and to bend
_WARPED = 64  # pixels of the bent glyph, before it is cropped
_RASTER = 32  # pixels of the cropped bitmap: 8 blocks of 4
_CANVAS_SIDE = _CANVAS / _GLYPH_HEIGHT  # side of the canvas in glyph heights


@dataclass(frozen=True)
class Distortion:
    """How far a glyph may be bent; each amount is drawn uniformly from its range."""

    stroke: tuple[float, float] = (-0.01, 0.045)  # change of the half stroke width, in glyph heights (low, high)
    slant: float = 0.5  # largest shear to either side, as a tangent
    turn: float = 22.0  # largest rotation to either side, in degrees
    stretch: tuple[float, float] = (0.7, 1.3)  # width over height, as a factor (low, high)
    bend: float = 0.105  # largest standard deviation of the elastic displacement, in glyph heights
    bend_nodes: int = 5  # nodes per side of the random field that bends; fewer nodes bend more softly

    def stronger(self, factor: float) -> "Distortion":
        """The same kinds of distortion with slant, turn and bend multiplied by ``factor``."""
        return replace(self, slant=self.slant * factor, turn=self.turn * factor, bend=self.bend * factor)


@dataclass(frozen=True)
class GlyphBatch:
    """Distorted glyphs as 8×8 block counts."""

    images: UInt8[Tensor, "n 8 8"]  # ink per block, 0..16
    labels: Int[Tensor, "n"]  # the digit each image shows
    faces: Int[Tensor, "n"]  # the index of the face it was drawn from
    # how it was bent, one column for each of TRAITS; slant and turn lean to the right above 0
    traits: Float[Tensor, "n 6"]

    @property
    def pixels(self) -> UInt8[Tensor, "n 3 8 8"]:
        """The images as the uint8 grey pictures that the digits data set has: 0..16 stretched to 0..255."""
        grey = (self.images.float() * 255 / 16).round().to(torch.uint8)
        return grey[:, None].repeat(1, 3, 1, 1)

    def __repr__(self) -> str:
        return f"GlyphBatch(n={len(self.labels)}, faces={len(self.faces.unique())})"


def _font_file(face: str) -> Path:
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
    if not path.is_file():
        raise FedCoPLError(
            f"font file {path.name} is not in matplotlib {matplotlib.__version__}; "
            "the glyphs are drawn from its fonts: reinstall matplotlib"
        )
    return path


def _distance_field(face: str, digit: int) -> Float[Tensor, "h w"]:
    font = ImageFont.truetype(str(_font_file(face)), 4 * _GLYPH_HEIGHT)
    left, top, right, bottom = font.getbbox(str(digit))
    page = Image.new("L", (int(right - left) + 8, int(bottom - top) + 8), 0)
    ImageDraw.Draw(page).text((4 - left, 4 - top), str(digit), font=font, fill=255)
    ink = page.crop(page.getbbox())
    width = max(1, round(ink.width * _GLYPH_HEIGHT / ink.height))
    ink = ink.resize((width, _GLYPH_HEIGHT), Image.Resampling.BOX)
    canvas = Image.new("L", (_CANVAS, _CANVAS), 0)
    canvas.paste(ink, ((_CANVAS - width) // 2, (_CANVAS - _GLYPH_HEIGHT) // 2))
    inside = np.asarray(canvas) >= 128
    signed = ndimage.distance_transform_edt(inside) - ndimage.distance_transform_edt(~inside)
    return torch.from_numpy((signed / _GLYPH_HEIGHT).astype(np.float32))


@lru_cache(maxsize=4)
def distance_fields(faces: tuple[str, ...] = TRAIN_FACES) -> Float[Tensor, "faces 10 h w"]:
    """Signed distance to the outline of every digit of every face, in glyph heights, positive in the ink."""
    return torch.stack([torch.stack([_distance_field(face, digit) for digit in range(10)]) for face in faces])


def _uniform(n: int, low: float, high: float, generator: torch.Generator) -> Float[Tensor, "n"]:
    return low + (high - low) * torch.rand(n, generator=generator)


def _bent_grid(n: int, distortion: Distortion, generator: torch.Generator) -> tuple[Float[Tensor, "n h w 2"], Tensor]:
    """Where each pixel of the bent glyph looks in the canvas, in grid_sample's coordinates (-1..1), and its traits.

    The traits are the amounts of slant, turn (in degrees), log stretch and bend, [n, 4]; the page's y axis points down,
    so that a positive shear leans to the left.
    """
    turn = _uniform(n, -distortion.turn, distortion.turn, generator)
    shear = _uniform(n, -distortion.slant, distortion.slant, generator)
    low, high = (float(np.log(factor)) for factor in distortion.stretch)
    stretch = _uniform(n, low, high, generator)
    angle, factor = torch.deg2rad(turn), torch.exp(stretch)
    cos, sin = angle.cos(), angle.sin()
    # Output to input: undo the rotation, then the shear, then the stretch of the width.
    x = torch.stack([(cos + shear * sin) / factor, (sin - shear * cos) / factor, torch.zeros(n)], dim=1)
    y = torch.stack([-sin, cos, torch.zeros(n)], dim=1)
    affine = torch.stack([x, y], dim=1)
    grid = F.affine_grid(affine * 1.15, [n, 1, _WARPED, _WARPED], align_corners=False)
    bend = _uniform(n, 0.0, distortion.bend, generator)
    amplitude = bend * 2 / _CANVAS_SIDE
    nodes = torch.randn(n, 2, distortion.bend_nodes, distortion.bend_nodes, generator=generator)
    field = F.interpolate(nodes, size=(_WARPED, _WARPED), mode="bicubic", align_corners=True)
    grid = grid + (amplitude[:, None, None, None] * field).permute(0, 2, 3, 1)
    return grid, torch.stack([-shear, turn, stretch, bend], dim=1)


def _crop_grid(ink: Float[Tensor, "n h w"]) -> Float[Tensor, "n 32 32 2"]:
    """A grid that shows only the glyph: its longer side fills the raster, the other one is centred."""
    size = ink.shape[-1]
    rows, columns = (ink > 0).any(dim=2), (ink > 0).any(dim=1)
    positions = torch.arange(size)
    first = torch.stack([side.int().argmax(dim=1) for side in (columns, rows)], dim=1)
    last = torch.stack([torch.where(side, positions, 0).amax(dim=1) for side in (columns, rows)], dim=1)
    centre = (first + last + 1).float() / size - 1  # (x, y) in grid coordinates
    half = (last - first + 1).amax(dim=1).float() / size
    steps = (torch.arange(_RASTER) + 0.5) * 2 / _RASTER - 1
    unit = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), dim=-1)
    return centre[:, None, None, :] + half[:, None, None, None] * unit


def draw_glyphs(
    n: int, generator: torch.Generator, *, faces: tuple[str, ...] = TRAIN_FACES, distortion: Distortion | None = None
) -> GlyphBatch:
    """Draw distorted digits of uniformly drawn faces and reduce them to 8×8 block counts.

    The bent glyph is cropped to its ink, scaled to 32 pixels, made black or white, and the ink of each 4×4 block
    is counted, which gives 0..16 as in the digits data.

    Args:
        n: how many images.
        generator: the only source of randomness.
        faces: names of matplotlib font files without ``.ttf``.
        distortion: how far the glyphs may be bent; ``None``: the default of :class:`Distortion`.

    Raises:
        FedCoPLError: ``n`` is below 1, or a face is not among matplotlib's fonts.

    >>> draw_glyphs(4, torch.Generator().manual_seed(0)).images.shape
    torch.Size([4, 8, 8])
    """
    if n < 1:
        raise FedCoPLError(f"n={n} glyphs were asked for; ask for 1 or more")
    distortion = distortion or Distortion()
    fields = distance_fields(faces)
    labels = torch.randint(10, (n,), generator=generator)
    face = torch.randint(len(faces), (n,), generator=generator)
    thicken = _uniform(n, *distortion.stroke, generator=generator)
    grid, bent_by = _bent_grid(n, distortion, generator)
    field = fields[face, labels] + thicken[:, None, None]
    bent = F.grid_sample(field[:, None], grid, padding_mode="border", align_corners=False)
    cropped = F.grid_sample(bent, _crop_grid(bent[:, 0]), padding_mode="border", align_corners=False)
    blocks = F.avg_pool2d((cropped > 0).float(), 4) * 16
    serif = torch.tensor([float(name in SERIF_FACES) - float(name in SANS_FACES) for name in faces])
    traits = torch.cat([thicken[:, None], bent_by, serif[face][:, None]], dim=1)
    return GlyphBatch(blocks[:, 0].round().to(torch.uint8), labels, face, traits)
