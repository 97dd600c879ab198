"""JupyterLab in a headless Chromium: the notebooks run, every slider moves by keyboard, nothing complains."""

import os
import re
from pathlib import Path

import lab_server as jupyter
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.long]
OPENED = ("explore", "fedcopl_main_fig1")
SLIDERS = {
    "thresholds": ("τ1 level (q_conf)", "τ2 level (q_ent)", "client"),
    "allocation": ("τ1 level (q_conf)", "τ2 level (q_ent)", "images added", "client", "class"),
    "kappa": ("κ", "threshold τ", "local step", "first image"),
    "partition": ("clients K", "β", "seed"),
    "rounds": ("round",),
}
SCHEMES = (("Dirichlet α (SAGE)", "α", 1), ("quantity s (FedCoPL)", "s", 3))
"""Schemes of the division, the slider that only they read, and keys until six clients can be served again."""
PIXELS = """image => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL();
}"""


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    """Where screenshots go: $FEDCOPL_LAB_SCREENSHOTS, or a temporary folder."""
    chosen = os.environ.get("FEDCOPL_LAB_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCOPL_LAB_HOME", str(folder / "runs"))
        patch.setenv("FEDCOPL_LAB_DATA", str(folder / "data"))
        patch.delenv("FEDCOPL_LAB_PROFILE", raising=False)
        with jupyter.jupyter_lab(folder, OPENED) as address:
            yield address


@pytest.fixture
def opened(chromium, server):
    """Opens a notebook, runs all of its cells, and checks at the end that the console stayed clean."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000})
    complaints = []

    def heard(message):
        if message.type == "error":
            complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def open_and_run(name):
        address, token = server
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{address}/lab/tree/{name}.ipynb?token={token}&reset")
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
        page.wait_for_function("document.querySelector('#jp-main-statusbar')?.innerText.includes('| Idle')")
        page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        page.wait_for_function(
            """() => {
                // a folded cell shows no prompt
                const prompts = [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                    .map(one => one.textContent).filter(text => text);
                return prompts.length && prompts.every(text => /\\[\\d+\\]:/.test(text));
            }""",
            timeout=240_000,
        )
        assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").count() == 0
        assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
        return page

    yield open_and_run
    context.close()
    assert not complaints


def slider(box, label):
    """The handle of the slider with this label."""
    row = box.locator(".widget-slider", has=box.page.get_by_text(label, exact=True))
    return row.locator(".noUi-handle").first


def words(box):
    return box.locator(".fedcopl-readout").inner_text()


def pixels(box):
    return box.locator("img").evaluate(PIXELS)


def wait_for_another_picture(page, box, before):
    for _ in range(300):
        if pixels(box) != before:
            return
        page.wait_for_timeout(200)
    raise AssertionError("after 60 s the picture is still the same")


def try_slider(page, box, label, keys=1):
    """Arrow keys: the value, the picture and the words follow."""
    handle = slider(box, label)
    handle.wait_for()
    box.locator(".widget-slider:not(:has([disabled]))", has=page.get_by_text(label, exact=True)).wait_for()
    value, before = handle.get_attribute("aria-valuetext"), pixels(box)
    at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
    handle.focus()
    for _ in range(keys):
        page.keyboard.press("ArrowLeft" if at_end else "ArrowRight")
    wait_for_another_picture(page, box, before)
    assert handle.get_attribute("aria-valuetext") != value, f"{label} did not move"
    assert re.search(r"\d", words(box)), f"no readout after {label}"


def test_every_slider_moves_by_keyboard_and_the_picture_follows(opened, shots):
    page = opened("explore")
    for name, labels in SLIDERS.items():
        box = page.locator(f".fedcopl-{name}").first
        box.scroll_into_view_if_needed()
        box.locator("img").wait_for()
        box.screenshot(path=shots / f"{name}_before.png")
        for label in labels:
            try_slider(page, box, label)
        for scheme, label, keys in SCHEMES if name == "partition" else ():
            box.get_by_label("scheme").select_option(label=scheme)
            try_slider(page, box, label, keys)
        box.screenshot(path=shots / f"{name}_after.png")
        assert "The picture shows the settings before" not in box.locator(".fedcopl-message").inner_text()
    # the kernel knows what the keyboard did
    cell = page.locator(".jp-CodeCell", has_text="for explorer in (thresholds")
    cell.locator(".cm-content").click()
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-cell')")
    cell.get_by_text("thresholds {'dataset': 'digits', 'client': 3, 'q_conf': 0.52, 'q_ent': 0.52}").wait_for()


def test_another_notebook_runs_clean(opened, shots):
    page = opened("fedcopl_main_fig1")
    page.locator(".jp-OutputArea-output img").first.wait_for()
    page.screenshot(path=shots / "fedcopl_main_fig1.png")
