"""Floating-point operations of a prompted CLIP that no exact form can avoid; 1 multiply-add = 2 FLOP."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The sizes that decide how much a prompted CLIP computes."""

    image_tokens: int  # class token and patches
    image_width: int  # width of the image tower
    image_layers: int  # its layers
    text_width: int  # width of the text tower
    text_layers: int  # its layers
    n_text: int = 16  # vectors of the text prompt
    n_visual: int = 5  # vectors per prompted image layer
    visual_depth: int = 11  # prompted image layers
    stem: int = 0  # multiply-adds of one image before the first prompted layer

    def image_forward(self, images: int) -> int:
        """Image features from what enters the first layer, FLOP."""
        return images * sum(sum(self._image_layer(i)) for i in range(self.image_layers)) * 2 + self._prompts() * 2

    def image_backward(self, images: int) -> int:
        """Gradient with respect to the visual prompts; weights are frozen, so activations only, FLOP."""
        total = 0
        for i in range(self.image_layers):
            projections, rest, attention = self._image_layer(i)
            total += rest + (projections + 2 * attention if i else self._first_attention_backward())
        return images * total * 2 + self._prompts() * 2

    def text_forward(self, own_lengths: Sequence[int]) -> int:
        """Text features of all classes, given each class's own tokens (name, period, end token), FLOP."""
        return 2 * sum(sum(self._text_layer(i, own_lengths)) for i in range(self.text_layers))

    def text_backward(self, own_lengths: Sequence[int]) -> int:
        """Gradient with respect to the text prompt, FLOP."""
        total = 0
        for i in range(self.text_layers):
            shared, projections, rest, attention = self._text_layer(i, own_lengths)
            total += shared + projections + rest + 2 * attention
        return 2 * total

    def step(self, images: int, own_lengths: Sequence[int]) -> int:
        """One training step: forward and backward of a batch and of all classes, FLOP."""
        image = self.image_forward(images) + self.image_backward(images)
        return image + self.text_forward(own_lengths) + self.text_backward(own_lengths)

    def _first_attention_backward(self) -> int:
        """Only the prompts' keys and values get a gradient there; nothing before the first layer learns."""
        queries = 1 if self.image_layers == 1 else self.image_tokens
        return queries * (self.image_tokens + 3 * self.n_visual) * self.image_width

    def _prompts(self) -> int:
        return self.visual_depth * self.n_visual * 2 * self.image_width**2

    def _image_layer(self, i: int) -> tuple[int, int, int]:
        """Projections of tokens to keys, values and queries; the rest; attention."""
        width, tokens = self.image_width, self.image_tokens
        queries = 1 if i == self.image_layers - 1 else tokens
        keys = tokens + (self.n_visual if i < self.visual_depth else 0)
        return (2 * tokens + queries) * width**2, 9 * queries * width**2, 2 * queries * keys * width

    def _text_layer(self, i: int, own_lengths: Sequence[int]) -> tuple[int, int, int, int]:
        """Shared tokens; projections of own tokens; their rest; attention."""
        width, shared, own = self.text_width, self.n_text + 1, sum(own_lengths)
        last = i == self.text_layers - 1
        queries = len(own_lengths) if last else own
        pairs = sum(shared + n if last else n * shared + n * (n + 1) // 2 for n in own_lengths)
        pairs += 0 if last else shared * (shared + 1) // 2
        return (
            (2 if last else 12) * shared * width**2,
            (2 * own + queries) * width**2 if i else 0,  # before the first layer a class's tokens never change
            9 * queries * width**2,
            2 * pairs * width,
        )


@dataclass(frozen=True)
class PoolShape(Shape):
    """A ModifiedResNet, whose one attention layer has a single query and no MLP."""

    embed: int = 1024  # width of the space that images and texts share

    def _image_layer(self, i: int) -> tuple[int, int, int]:
        width, tokens = self.image_width, self.image_tokens
        keys = tokens + self.n_visual * self.visual_depth
        return (2 * tokens + 1) * width**2, width * self.embed, 2 * keys * width


def resnet_stem(image_size: int, width: int, layers: Sequence[int]) -> int:
    """Multiply-adds of one image in a ModifiedResNet up to its attention pool.

    >>> round(resnet_stem(224, 64, (3, 4, 6, 3)) / 1e9, 1)
    5.4
    """
    half, side = width // 2, image_size // 2
    total, incoming = side**2 * 9 * (3 * half + half * half + half * width), width
    side //= 2
    for i, blocks in enumerate(layers):
        planes = width << i
        for block in range(blocks):
            total += side**2 * (incoming * planes + 9 * planes**2)
            side //= 2 if i and not block else 1
            total += side**2 * 4 * planes * (planes + (0 if block else incoming))  # and the skipping path's own
            incoming = 4 * planes
    return total


_PHOTOS = Shape(65, 128, 6, 64, 3, n_text=8, visual_depth=5, stem=64 * 3 * 4 * 4 * 128)

SHAPES = {
    "tiny": Shape(17, 64, 4, 64, 3, n_text=8, visual_depth=3, stem=16 * 12 * 64),
    "tiny-p1": Shape(65, 48, 4, 64, 3, n_text=8, visual_depth=3, stem=64 * 3 * 48),
    "tiny-rn": PoolShape(5, 512, 1, 64, 3, n_text=8, visual_depth=1, stem=resnet_stem(64, 16, (1, 1, 1, 1)), embed=64),
    "mini": _PHOTOS,
    "mini-traits": _PHOTOS,
    "ViT-B-32": Shape(50, 768, 12, 512, 12, stem=49 * 3 * 32 * 32 * 768),
    "ViT-B-16": Shape(197, 768, 12, 512, 12, stem=196 * 3 * 16 * 16 * 768),
    "RN50": PoolShape(50, 2048, 1, 512, 12, visual_depth=1, stem=resnet_stem(224, 64, (3, 4, 6, 3))),
}
"""Sizes of the known models with the prompts of their profile."""
