"""Training of `resnet8-cifar100`, trained weights that SAGE's ResNet-8 can start from."""

import hashlib
import time
from dataclasses import asdict
from pathlib import Path

import torch
from torch.nn import functional as F
from tqdm.auto import tqdm

from fedcopl_lab._files import check_writable, tensor_bytes
from fedcopl_lab._threads import torch_threads
from fedcopl_lab.data import Dataset, channel_statistics, draw_weak, load_dataset, normalise, weak_view
from fedcopl_lab.extras.embedded.cards import card_of
from fedcopl_lab.extras.embedded.photos import whole_batches
from fedcopl_lab.extras.embedded.recipes import StartRecipe
from fedcopl_lab.extras.embedded.training import TrainedModel, write_model
from fedcopl_lab.models.resnet8 import START, ResNet8, draw_resnet8, load_values, placed
from fedcopl_lab.seeding import torch_generator
from fedcopl_lab.steps import model_scores


def train_start(
    recipe: StartRecipe, out_dir: Path | str, progress: bool = True, *, root: str | Path | None = None
) -> TrainedModel:
    """Train a ResNet-8 on CIFAR-100 and write weights, card and manifest to a folder.

    ``root`` is the folder with the data sets, as ``load_dataset`` takes it.

    Raises:
        FedCoPLError: CIFAR-100 is not there, it has fewer images than a batch, or the folder cannot be written.
    """
    folder, start = Path(out_dir), time.perf_counter()
    check_writable(folder)
    dataset = load_dataset("cifar100", root, recipe.image_size)
    model = learn_classes(dataset, recipe, progress)
    minutes, state = (time.perf_counter() - start) / 60, model.state_dict()
    values = {name: value.half().contiguous() for name, value in state.items() if value.is_floating_point()}
    content = tensor_bytes(values)
    load_values(model, state | values)  # as a run will load them
    scores = model_scores(model, dataset.images[dataset.test_indices], channel_statistics(dataset, "test"))
    accuracy = round((scores.argmax(dim=1) == dataset.test_labels).double().mean().item(), 4)
    told = {"recipe": asdict(recipe), "images": len(dataset.train_indices), "accuracy": accuracy}
    card = card_of(START, model, hashlib.sha256(content).hexdigest(), told, minutes, len(content))
    return write_model(folder, model, content, card)


def learn_classes(dataset: Dataset, recipe: StartRecipe, progress: bool = True) -> ResNet8:
    """A ResNet-8 trained on all training images of a set with their labels; fewer images than a batch are an error."""
    train, statistics = dataset.train_indices, channel_statistics(dataset, "train")
    per_epoch = whole_batches(len(train), recipe.batch_size)
    model = draw_resnet8(dataset.n_classes, recipe.channels, torch_generator(recipe.seed, "start-weights"))
    model = placed(model, "cpu", channels_last=True).train()
    optimiser = torch.optim.SGD(model.parameters(), momentum=0.9, weight_decay=recipe.weight_decay, nesterov=True)
    generator, steps, order = torch_generator(recipe.seed, "start-batches"), recipe.epochs * per_epoch, train
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.lr, total_steps=steps + 1, pct_start=recipe.warmup)
    with torch_threads(recipe.threads):
        for step in tqdm(range(steps), desc=START, disable=not progress):
            place = step % per_epoch * recipe.batch_size
            if not place:
                order = train[torch.randperm(len(train), generator=generator)]
            batch = order[place : place + recipe.batch_size]
            views = weak_view(dataset.images[batch], draw_weak(len(batch), dataset.images.shape[-1], generator))
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.precision == "bf16"):
                scores = model(normalise(views, statistics.mean, statistics.std))
            loss = F.cross_entropy(scores.float(), dataset.labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model
