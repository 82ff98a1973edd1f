"""Audits: attempts to refute the privacy that a ledger claims. An audit can refute a claim; only a proof establishes one.

Four methods, each with failing twins that it has to catch:

- `covariance`: the exact cost of a linear mechanism with Gaussian noise, from matrices measured on the running code;
- `replay`: the shifts that one changed user causes behind fixed outputs, priced at the scale of the noise that hides them;
- `attack`: a distinguisher on many runs, with exact (Clopper-Pearson) confidence limits;
- `enumeration`: exact output laws of small or rounded mechanisms.
"""

from privbandit.audit.attack import clopper_pearson, epsilon_lower_bound
from privbandit.audit.base import Audit, AuditResult, Finding
from privbandit.audit.covariance import exact_mu
from privbandit.audit.recorder import Leak, Recorder, Replayer
from privbandit.audit.replay import Users, replay
from privbandit.audit.table import AUDITS, matching, run

__all__ = [
    "AUDITS",
    "Audit",
    "AuditResult",
    "Finding",
    "Leak",
    "Recorder",
    "Replayer",
    "Users",
    "clopper_pearson",
    "epsilon_lower_bound",
    "exact_mu",
    "matching",
    "replay",
    "run",
]
