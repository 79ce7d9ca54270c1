"""Restow makes a training run fit its devices, and keeps it fast.

>>> import restow
>>> report = restow.plan("examples/llama3-70b-64xh100.yaml", tp=[4, 8])
>>> report.ranked[0].layout.tp
4
"""

from pkgutil import extend_path

# A development build keeps its extension modules in a folder of their own: build/python/ext/restow.
__path__ = extend_path(__path__, __name__)

from . import _restow
from ._enabled import disabled
from ._job import Dimensions, Job
from ._planner import (
    calibrate,
    compare,
    devices,
    explain,
    export,
    models,
    plan,
    price,
    schema,
    validate,
)
from ._reports import (
    Candidate,
    Comparison,
    Device,
    Explanation,
    Layout,
    Model,
    PlanReport,
    PriceReport,
    Recompute,
)
from ._validation import Calibration, RunReport, ValidationReport
from .errors import (
    Error,
    InputError,
    ModifiedInPlace,
    NotDeterministic,
    NothingFits,
    OutOfMemory,
    Overlap,
    UnknownFieldWarning,
    Unsupported,
)

__version__: str = _restow.version

__all__ = [
    "Calibration",
    "Candidate",
    "Comparison",
    "Device",
    "Dimensions",
    "Error",
    "Explanation",
    "InputError",
    "Job",
    "Layout",
    "Model",
    "ModifiedInPlace",
    "NotDeterministic",
    "NothingFits",
    "OutOfMemory",
    "Overlap",
    "PlanReport",
    "PriceReport",
    "Recompute",
    "RunReport",
    "UnknownFieldWarning",
    "Unsupported",
    "ValidationReport",
    "__version__",
    "calibrate",
    "compare",
    "devices",
    "disabled",
    "explain",
    "export",
    "models",
    "plan",
    "price",
    "schema",
    "validate",
]
