"""A run, told once: what the jobs have in common around their loops."""

from paceline.run.options import (
    REQUIRED,
    Count,
    Device,
    Directory,
    Option,
    Options,
    Says,
    Seconds,
    Whole,
    arguments,
    checked,
    checks_options,
    common_options,
    options_of,
)

__all__ = [
    "REQUIRED",
    "Count",
    "Device",
    "Directory",
    "Option",
    "Options",
    "Says",
    "Seconds",
    "Whole",
    "arguments",
    "checked",
    "checks_options",
    "common_options",
    "options_of",
]
