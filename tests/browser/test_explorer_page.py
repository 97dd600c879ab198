"""The explorers' page in a browser: the library's numbers at every setting, moves by keyboard, also on a phone."""

import json
from pathlib import Path

import pytest

import fedcopl_lab as lab
from fedcopl_lab import widgets
from fedcopl_lab.widgets import PartitionParams, Scores, WeakViewScores, _explorer_page

pytestmark = pytest.mark.browser
PAGE = Path(__file__).resolve().parents[2] / "figures" / "explorer.html"
LEVELS = {"dirichlet": ("beta", 0.1), "quantity": ("fraction", 0.5), "iid": (None, 0), "sage dirichlet": ("alpha", 0.3),
          "sage pairwise_balanced": ("alpha", 0.1)}  # fmt: skip


@pytest.fixture(scope="module")
def sage(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCOPL_LAB_HOME", str(tmp_path_factory.mktemp("runs")))
        return lab.run(lab.configure("smoke", method="SAGE", rounds=3), progress=False)


@pytest.fixture(scope="module")
def page(chromium, sage, tmp_path_factory):
    committed = json.loads(PAGE.read_text("utf-8").split('id="data">')[1].split("</script>")[0])["divisions"]
    with pytest.MonkeyPatch.context() as patch:  # each is compared with the library below
        patch.setattr(
            _explorer_page,
            "_division",
            lambda name, level, clients, seed, _: committed[f"{name}|{level:g}|{clients}|{seed}"],
        )
        path = widgets.write_explorer(tmp_path_factory.mktemp("page"), sage)
    assert path.stat().st_size <= 300_000
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    yield page
    page.close()
    assert not complaints


def numbers(page, **changes):
    return page.evaluate("changes => { explorer.set(changes); return explorer.numbers; }", changes)


def same(theirs, mine):
    """Every number of the library stands in the page's too, to within float32."""
    for name, value in mine.items():
        if isinstance(value, dict):
            same(theirs[name], value)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], float):
            assert theirs[name] == pytest.approx(list(value), rel=1e-4, abs=2e-5), name
        elif isinstance(value, float):
            assert theirs[name] == pytest.approx(value, rel=1e-4, abs=2e-5), name
        else:
            assert theirs[name] == (list(value) if isinstance(value, tuple) else value), name


def places(page, scheme, level, clients, seed):
    data = page.evaluate("({schemes: data.schemes, clients: data.clients})")
    levels = data["schemes"][scheme]["levels"]
    return {"scheme": scheme, "level": levels.index(level), "clients": data["clients"].index(clients), "seed": seed}


@pytest.mark.parametrize("scheme", LEVELS)
@pytest.mark.parametrize(("clients", "seed"), [(5, 0), (10, 2), (20, 1)])
def test_divisions_are_the_librarys(page, scheme, clients, seed):
    field, level = LEVELS[scheme]
    shown = numbers(page, **places(page, scheme, level, clients, seed))
    params = PartitionParams(scheme=scheme, n_clients=clients, seed=seed, **({field: level} if field else {}))
    explorer = widgets.explore_partition(scheme=scheme)
    explorer.params = params
    if explorer.error is None:
        same(shown["division"], explorer.numbers)
    else:
        assert str(explorer.error) in page.locator("#division-words, #division-note").all_inner_texts()[1]


@pytest.mark.parametrize(("beta", "clients"), [(0.1, 5), (1.0, 10), (10.0, 20)])
def test_thresholds_and_allocation_are_the_librarys(page, beta, clients):
    scores = Scores.of(lab.configure("smoke", beta=beta, n_clients=clients))
    thresholds = widgets.explore_thresholds([scores], client=3)
    allocation = widgets.explore_allocation([scores], client=3)
    numbers(page, q_conf=0.5, q_ent=0.5, client=2)  # another test's move is not this one's
    numbers(page, **places(page, "dirichlet", beta, clients, 0), client=3, added=0, mode="paper")
    for q_conf, q_ent in ((0.5, 0.5), (0.2, 0.84), (0.9, 0.3), (1.0, 1.0), (0.0, 0.0)):
        before = thresholds.params
        thresholds.set(q_conf=q_conf, q_ent=q_ent)
        shown = numbers(page, q_conf=q_conf, q_ent=q_ent)
        same(shown["thresholds"], thresholds.numbers)
        assert shown["thresholds"]["gained"] == 0 or before != thresholds.params
        for mode in ("paper", "authors", "none"):
            allocation.set(q_conf=q_conf, q_ent=q_ent, mode=mode, label=4, added=17)
            same(numbers(page, mode=mode, label=4, added=17)["allocation"], allocation.numbers)


def test_corrected_labels_are_the_librarys(page, sage):
    explorer = widgets.explore_kappa(WeakViewScores.of(sage))
    for kappa, threshold, step in ((13.86, 0.5, 0), (0.0, 0.3, 2), (60.0, 0.45, 4), (5.0, 0.999, 1)):
        explorer.set(kappa=kappa, threshold=threshold, step=step, image=0)
        same(numbers(page, kappa=kappa, threshold=threshold, step=step, image=0)["kappa"], explorer.numbers)


def test_every_slider_moves_by_keyboard_and_the_words_and_pictures_follow(page):
    numbers(page, **places(page, "dirichlet", 0.1, 5, 0), client=2, q_conf=0.5, q_ent=0.5, label=0, added=0)
    numbers(page, mode="paper", kappa=13.86, threshold=0.5, step=0, image=0)
    followed = {
        "division": ("level", "clients", "seed"), "thresholds": ("q_conf", "q_ent", "client"),
        "allocation": ("added", "label"), "kappa": ("kappa", "threshold", "step", "image"),
    }  # fmt: skip
    for section, key in ((section, key) for section, keys in followed.items() for key in keys):
        before = page.locator(f"#{section}-pictures").inner_html() + page.locator("#kappa-views").inner_html()
        page.locator(f"[data-key={key}]").first.focus()
        page.keyboard.press("ArrowRight")
        after = page.locator(f"#{section}-pictures").inner_html() + page.locator("#kappa-views").inner_html()
        assert before != after, f"nothing follows {key}"
        assert "NaN" not in after
        assert "undefined" not in after
        assert page.locator(f"#{section}-words").inner_text()
    assert page.evaluate("[...document.querySelectorAll('[data-key=client]')].map(i => i.value)") == ["3", "3"]


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_every_control_has_a_name(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    numbers(page, **places(page, "dirichlet", 0.1, 20, 1))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    names = page.evaluate("[...document.querySelectorAll('input, select')].map(i => i.labels[0].innerText.trim())")
    assert all(names)
    wide = page.evaluate("[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().right)")
    assert max(wide) <= width
