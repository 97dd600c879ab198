"""What a semi-supervised run will cost before it starts, from rates measured with its own steps."""

import math

from fedcopl_lab.config import SageConfig
from fedcopl_lab.data import counts_of, known_manifests, load_dataset, load_manifest, split_name
from fedcopl_lab.extras.bench.run_plan import RunPlan
from fedcopl_lab.extras.bench.sage_rates import SemiRates, measure_semi_rates
from fedcopl_lab.methods import RECIPES
from fedcopl_lab.methods._batches import VIEWS_AT_ONCE
from fedcopl_lab.methods._semi_setting import pool_steps
from fedcopl_lab.steps import IMAGES_PER_FORWARD

_REPORTS = 2  # of pool images: by the model a client starts from and by its trained one
_MODELS = 6  # in training, frozen, merged, sums in float64, and the stored state


def plan_semi_run(config: SageConfig, gflops: float | None = None, rates: SemiRates | None = None) -> RunPlan:
    """Estimate one semi-supervised run.

    Args:
        config: the run.
        gflops: sustained GFLOP/s of another machine; None: measure this one for a second or a few.
        rates: known rates instead of measured ones.

    Returns:
        The plan; clients are taken as equally large. FLOPs are those of the method's convolutions and products.

    Raises:
        FedCoPLError: a data set that is not known, or a rate that is not positive.

    >>> plan_semi_run(configure("smoke", method="SAGE")).steps
    448

    Shown by the command ``fedcopl-lab plan``.
    """
    n_train, n_test, side = image_counts(config)
    rates = measure_semi_rates(config, side, gflops) if rates is None else rates
    clients = config.clients_per_round
    visits = config.rounds * clients
    steps = visits * config.local_epochs * _steps_per_epoch(config, n_train)
    pool = _pool(config, n_train)
    passes = (config.method == "FedDB") + (config.bn == "recalibrate")
    reported = _REPORTS * min(pool, config.n_probe) + config.n_probe
    scored = visits * (passes * pool + reported) + config.rounds * (n_test + config.n_probe)
    per_step = config.batch_size + 2 * config.unlabelled_batch_size * RECIPES[config.method].uses_pool
    image_bytes = 3 * side * side
    views = 4 * image_bytes * max(VIEWS_AT_ONCE, config.unlabelled_batch_size) * 3
    largest = max(rates.step_bytes + views, rates.score_bytes * min(IMAGES_PER_FORWARD, n_test))
    return RunPlan(
        steps=steps,
        images_trained=steps * per_step,
        images_scored=scored,
        flop=steps * rates.step_flop + scored * rates.score_flop,
        seconds=steps * rates.step + scored * rates.score + visits * rates.client,
        bytes=rates.base_bytes + (n_train + n_test) * image_bytes + (clients + _MODELS) * rates.model_bytes + largest,
    )


def image_counts(config: SageConfig) -> tuple[int, int, int]:
    """Training images, test images and side of a run's data; named sets need not be here."""
    if config.dataset.startswith("folder:"):
        dataset = load_dataset(config.dataset, image_size=config.image_size)
        return len(dataset.train_indices), len(dataset.test_indices), dataset.images.shape[-1]
    part = split_name(config.dataset, known_manifests())
    manifest = load_manifest(part.whole)
    n_train, n_test = counts_of(part, manifest.n_train, manifest.n_test)
    return n_train, n_test, config.image_size or manifest.image_size[0]


def _pool(config: SageConfig, n_train: int) -> int:
    """Images of a client's pool."""
    return n_train // config.n_clients - (0 if config.labelled_in_pool else _labelled(config, n_train))


def _labelled(config: SageConfig, n_train: int) -> int:
    """Labelled images of a client; ten classes where a number per class is given."""
    everyone = config.label_fraction * n_train if config.labelled_per_class is None else 10 * config.labelled_per_class
    return max(round(everyone / config.n_clients), 1)


def _steps_per_epoch(config: SageConfig, n_train: int) -> int:
    if config.supervised_schedule == "labelled_epochs" and not RECIPES[config.method].uses_pool:
        few = RECIPES[config.method].labels == "few"
        images = _labelled(config, n_train) if few else n_train // config.n_clients
        return math.ceil(images / config.batch_size)
    return pool_steps(config, _pool(config, n_train))
