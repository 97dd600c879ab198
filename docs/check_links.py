"""Every link of the built site leads to a file that is there, and to a place on it; prints those that do not."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the places of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        """Note what the tag links to and what it can be linked by."""
        told = dict(attributes)
        self.places |= {told[key] for key in ("id", "name") if told.get(key)}
        self.links += [told[key] for key in ("href", "src") if told.get(key)]


def broken_links(folder):
    """(page, link) of every link within the site that leads nowhere; those to other sites are not followed."""
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            there = target.is_file() and (not place or target not in pages or place in pages[target].places)
            if not there:
                yield path.relative_to(folder.resolve()), link


if __name__ == "__main__":
    found = sorted(set(broken_links(Path(sys.argv[1]))))
    print(*(f"{page}: {link}" for page, link in found), f"{len(found)} broken links", sep="\n")
    sys.exit(bool(found))
