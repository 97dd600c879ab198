"""Recipes that train the CLIPs of the package: ``tiny`` and its relatives on glyphs, ``mini`` on photographs."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(("DigitAccuracy", "evaluate_tiny"), ".card"),
        **dict.fromkeys(("TrainedMini", "train_mini"), ".mini"),
        **dict.fromkeys(("PhotoAccuracy", "evaluate_photos"), ".mini_card"),
        "MiniRecipe": ".mini_recipe",
        **dict.fromkeys(("TinyRecipe", "TrainedTiny", "train_tiny"), ".tiny"),
        "train_embedded": ".train",
    },
)
