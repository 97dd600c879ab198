"""What two equal runs have in common on disk."""


def promised_bytes(run):
    """What the run key promises: everything but where and how fast it was computed."""
    files = sorted(p for p in run.path.rglob("*") if p.is_file() and p.name not in ("environment.json", "seconds.json"))
    return {str(p.relative_to(run.path)): p.read_bytes() for p in files}
