"""``fedcopl-lab data``: what is there, fetch, check, where."""

import argparse

from fedcopl_lab._errors import FedCoPLError
from fedcopl_lab.data import data_root, download_of, get, known_manifests, read_manifest_table, state_of, verify

STATES = {"here": "here", "partly": "partly", "absent": "not here", "packaged": "in the package"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The verbs of ``data`` and their options."""
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    for verb, command, text in (
        ("list", list_sets, "every set and set of weights: what it is, how large, whether it is there"),
        ("get", get_sets, "download, check and unpack; interrupted downloads go on where they stopped"),
        ("verify", verify_sets, "read every file and compare it with the manifests; changes nothing"),
        ("where", show_folders, "the folders of data sets, and the files of OpenAI's weights"),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        if verb in ("get", "verify"):
            one.add_argument("names", nargs="+" if verb == "get" else "*", metavar="NAME", help="such as cifar10")
        if verb == "get":
            one.add_argument("--replace", action="store_true", help="fetch again what has a wrong checksum")
            one.add_argument("--quiet", action="store_true", help="no progress bar")
        one.add_argument("--root", metavar="FOLDER", help="instead of $FEDCOPL_LAB_DATA")
        one.set_defaults(command=command)


def list_sets(options: argparse.Namespace) -> int:
    """One line per set and per set of weights."""
    print(f"{'name':<16} {'state':<15} {'download':>10}  {'train':>6} {'test':>6} {'classes':>7}  licence")
    for name in known_manifests():
        table, state = read_manifest_table(name), STATES[state_of(name, options.root)]
        counts = table.get("counts", {})
        train, test, classes = (f"{counts[key]:,}" if counts else "-" for key in ("train", "test", "classes"))
        size = _size(download_of(name, options.root).size)
        print(f"{name:<16} {state:<15} {size:>10}  {train:>6} {test:>6} {classes:>7}  {table.get('licence', '-')}")
    print(f"\nin {data_root(options.root)}; fetch with `fedcopl-lab data get NAME`")
    return 0


def get_sets(options: argparse.Namespace) -> int:
    """Download, check, unpack."""
    for name in options.names:
        download_of(name, options.root)  # an unknown name is refused before anything is fetched
    failed = []
    for name in options.names:
        try:
            print(f"{name}: in {get(name, options.root, options.replace, not options.quiet)}")
        except FedCoPLError as problem:
            failed.append(f"{name}: {problem}")
    if failed:
        raise FedCoPLError("; ".join(failed))
    return 0


def verify_sets(options: argparse.Namespace) -> int:
    """Compare every file with the manifests; 2 when one differs."""
    names = options.names or [name for name in known_manifests() if state_of(name, options.root) in ("here", "partly")]
    if not names:
        print(f"nothing to check in {data_root(options.root)}; fetch with `fedcopl-lab data get NAME`")
    n_problems = 0
    for name in names:
        found = verify(name, options.root)
        n_problems += len(found.problems)
        print(f"{name}: {found.checked} files read, " + ("all right" if not found.problems else "NOT right"))
        for line in (*found.problems, *found.remarks):
            print(f"  {line}")
    if n_problems:
        raise FedCoPLError(
            f"{n_problems} problem(s), see above; nothing was changed: look at these files, then "
            "`fedcopl-lab data get NAME --replace` fetches them again and keeps the old ones as NAME.bad"
        )
    return 0


def show_folders(options: argparse.Namespace) -> int:
    """The folders, and what they take."""
    root = data_root(options.root)
    print(f"{root}  (set FEDCOPL_LAB_DATA to move it)")
    print(f"OpenAI's CLIP: {root / 'NAME' / 'NAME.pt'}, $FEDCOPL_LAB_WEIGHTS/NAME.pt or ~/.cache/clip/NAME.pt; "
          "NAME is ViT-B-32, ViT-B-16 or RN50")  # fmt: skip
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        taken = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"  {_size(taken):>10}  {folder.relative_to(root)}")
    return 0


def _size(n_bytes: int) -> str:
    if not n_bytes:
        return "-"
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
