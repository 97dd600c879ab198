"""How fast the steps are, what a run will cost, and the plain forms that they are compared with."""

from fedcopl_lab._lazy import lazy_names

_NAMES = {
    ".card_bench": "bench_card",
    ".clients_together": "bench_together",
    ".plan": "data_sizes plan_run",
    ".prompt_step": "bench_step",
    ".rates": "measure_rates measure_sage_rates",
    ".sage_step": "bench_sage",
    ".widgets": "bench_widgets draw_widget_bench",
}
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
