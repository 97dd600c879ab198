"""``lab.tour()``: both methods in a few lines to copy, each with the notebook that explains it."""

_TOUR = """\
# FedCoPL in ten lines; copy them all, or one after the other. Behind each arrow: its file in the repository
import torch
import fedcopl_lab as lab

# settings of a run: method, clients, how uneven they are -> notebooks/00_quickstart.ipynb
config = lab.configure("smoke", method="FedCoPL", beta=0.1, seed=0)
# images and a frozen CLIP, both in the package -> notebooks/data_check.ipynb
digits, clip = lab.load_dataset("digits"), lab.load_clip("tiny")
# who holds which images -> notebooks/fedcopl_supp_fig3.ipynb
federation = lab.partition(digits, "dirichlet", config.n_clients, beta=0.1, seed=0)
# the CLIP's scores of each client's unlabelled images -> notebooks/fedcopl_main_fig1.ipynb
logits = [lab.zero_shot(clip, digits, federation.indices(k)).logits for k in range(config.n_clients)]
# each client keeps the images that the CLIP is sure of -> notebooks/fedcopl_supp_thresholds.ipynb
kept = [lab.filter_confident(z, q_conf=0.5, q_ent=0.5) for z in logits]
# the server gives every class the same budget -> notebooks/fedcopl_main_fig2.ipynb
allocation = lab.allocate(torch.stack([one.counts for one in kept]))
# each client takes its most probable images of each class -> notebooks/00_quickstart.ipynb
labels = [lab.select_top(z, quota) for z, quota in zip(logits, allocation.quota)]
# these steps and training, over all rounds, stored -> notebooks/fedcopl_main_table1.ipynb
run = lab.run(config, progress=False)
print(kept[4], allocation, run.rows[["round", "accuracy", "label_accuracy"]].round(3)[1::2], sep="\\n")

# SAGE, the second paper -> notebooks/sage_step_by_step.ipynb
# sliders in a browser, without Python -> figures/explorer.html; in JupyterLab -> notebooks/explore.ipynb
# every table and figure, and which claims hold -> figures/report.html; in a terminal: fedcopl-lab reproduce
# your own images -> notebooks/your_own_data.ipynb; a method of your own -> notebooks/add_a_method.ipynb
# all notebooks -> notebooks/README.md; all functions -> make docs"""


def tour() -> None:
    """Print FedCoPL in ten lines of Python, each with the page or notebook that explains it.

    The lines are those of the README; what is printed can be pasted into a cell as it is.

    >>> lab.tour()
    # FedCoPL in ten lines; ...

    Shown in notebook ``00_quickstart``.
    """
    print(_TOUR)
