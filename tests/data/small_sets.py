"""Small sets in the official layout, placed where a person would, with manifests that fit them."""

import fakes


def cinic10(own_manifests, root):
    classes = ("airplane", "automobile")
    fakes.place(own_manifests, root, "cinic10", "CINIC-10.tar.gz", fakes.cinic10(classes, 3), (6, 6), classes)


def ucf101(own_manifests, root):
    files, split = fakes.ucf101(("Apply_Eye_Makeup", "Yo_Yo"), {"train": 2, "val": 1, "test": 1})
    shown = ("Apply Eye Makeup", "Yo Yo")
    fakes.place(own_manifests, root, "ucf101", "UCF-101-midframes.zip", files, (4, 2), shown)
    (root / "ucf101/split_zhou_UCF101.json").write_bytes(split)


def resisc45(own_manifests, root):
    files, lists = fakes.resisc45(("airplane", "sea_ice"), {"train": 1, "val": 1, "test": 2})
    fakes.place(own_manifests, root, "resisc45", "NWPU-RESISC45.zip", files, (4, 4), ("airplane", "sea ice"))
    for name, content in lists.items():
        (root / "resisc45" / name).write_bytes(content)


def cub(own_manifests, root):
    official = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    shown = ("black footed albatross", "laysan albatross")
    fakes.place(own_manifests, root, "cub", "CUB_200_2011.tgz", fakes.cub(official, 3), (4, 2), shown)


def svhn(own_manifests, root):
    own_manifests.small("svhn", 30, 20)
    path = own_manifests.folder / "svhn.toml"
    (root / "svhn").mkdir()
    parts = {name: fakes.svhn(n) for name, n in (("train", 30), ("test", 20))}
    sums = iter([fakes.md5(content) for content in parts.values()])
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith(("bytes =", "sha256 ="))]
    path.write_text("\n".join(f'md5 = "{next(sums)}"' if one.startswith("md5 =") else one for one in lines), "utf-8")
    for name, content in parts.items():
        (root / "svhn" / f"{name}_32x32.mat").write_bytes(content)
