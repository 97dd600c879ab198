"""How fast the steps are, what a run will cost, and the plain forms that they are compared with."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bench_card": ".card_bench",
        "bench_sage": ".sage_step",
        "bench_step": ".prompt_step",
        "bench_together": ".clients_together",
        **dict.fromkeys(("bench_widgets", "draw_widget_bench"), ".widgets"),
        **dict.fromkeys(("measure_rates", "measure_sage_rates"), ".rates"),
        **dict.fromkeys(("data_sizes", "plan_run"), ".plan"),
    },
)
