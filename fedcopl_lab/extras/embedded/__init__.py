"""Recipes that train the CLIPs of the package: ``tiny`` and relatives on glyphs, two on photographs."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("Accuracy", "card_files", "evaluate_photos", "evaluate_tiny"), ".cards"),
        **dict.fromkeys(("MiniRecipe", "TextRecipe", "TinyRecipe"), ".recipes"),
        **dict.fromkeys(("TRAIN_FACES", "draw_glyphs"), ".glyphs"),
        "TrainedModel": ".training",
        "train_embedded": ".train",
        "train_mini": ".mini",
        "train_tiny": ".tiny",
        "train_traits": ".traits",
    },
)
