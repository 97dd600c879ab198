"""How fast the steps are, what a run will cost, and the plain forms that they are compared with."""

from fedcopl_lab._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bench_sage": ".sage_step",
        "bench_step": ".step",
        "bench_widgets": ".widgets",
        "draw_widget_bench": ".widgets",
        "measure_rates": ".rates",
        "plan_run": ".run_plan",
        "plan_semi_run": ".sage_run_plan",
    },
)
