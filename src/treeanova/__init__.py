"""TreeANOVA: the functional ANOVA of tree ensembles.

`purify(scores, weights)` splits a tensor into an intercept, pure main effects and pure interactions: unique for the
weights, adding up to the tensor, with a certificate of how pure they are.
"""

from treeanova.certificate import Certificate, TermCertificate
from treeanova.errors import NotPureError, NotPureWarning
from treeanova.purification import MethodChoice, Purified, choose_method, purify

__all__ = [
    "Certificate",
    "MethodChoice",
    "NotPureError",
    "NotPureWarning",
    "Purified",
    "TermCertificate",
    "choose_method",
    "purify",
]
__version__ = "0.1.0"
