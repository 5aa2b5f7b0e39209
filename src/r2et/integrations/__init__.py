"""r2et inside other people's training loops and tools. Each module imports its library, and nothing else does.

`r2et.integrations.penalty` is what they share: the regularisers of an objective, to be added to any loss.
"""

from r2et.integrations.penalties import Penalty, penalty

__all__ = ["Penalty", "penalty"]
