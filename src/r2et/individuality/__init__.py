"""Whether a list says anything about the one it is given to: how alike lists are, and what is left of an overlap.

A list that is the same for everybody is perfectly stable and says nothing about anybody. So the overlap A of a
list with itself under an attack (its P@k) is set beside the overlap B of two people's lists: kappa = (A - B) /
(1 - B) is 1 where everybody keeps a list of their own, 0 where it becomes no more like itself than like anybody
else's, and may be negative. Pure tensor maths: nothing here knows a model.
"""

from r2et.individuality.counting import LIST_PER_CLASS, ONE_LIST, Individuality
from r2et.individuality.kappa import Kappa

__all__ = ["LIST_PER_CLASS", "ONE_LIST", "Individuality", "Kappa"]
