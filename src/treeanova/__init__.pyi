# The public names: read by type checkers, and by __init__.py to find the module of each name.
from treeanova import density as density
from treeanova import errors as errors
from treeanova import export as export
from treeanova import model as model
from treeanova import plot as plot
from treeanova._decompose import bag as bag
from treeanova._decompose import decompose as decompose
from treeanova._decompose import density_sensitivity as density_sensitivity
from treeanova._decompose import plan as plan
from treeanova.anova.certificate import Certificate as Certificate
from treeanova.anova.purify import Purified as Purified
from treeanova.anova.purify import purify as purify
from treeanova.decomposition.bags import Bag as Bag
from treeanova.decomposition.change import Change as Change
from treeanova.decomposition.change import change as change
from treeanova.decomposition.comparison import Comparison as Comparison
from treeanova.decomposition.comparison import Sensitivity as Sensitivity
from treeanova.decomposition.comparison import compare as compare
from treeanova.decomposition.decomposition import Decomposition as Decomposition
from treeanova.decomposition.decomposition import load as load
from treeanova.decomposition.decomposition import mean as mean
from treeanova.decomposition.explanation import Explanation as Explanation
from treeanova.decomposition.gap import Gap as Gap
from treeanova.decomposition.impact import Impact as Impact
from treeanova.decomposition.monotonicity import Monotonicity as Monotonicity
from treeanova.decomposition.predictions import Term as Term
from treeanova.decomposition.simplify import Simplification as Simplification
from treeanova.decomposition.validation import Validation as Validation
from treeanova.estimators import AdditiveClassifier as AdditiveClassifier
from treeanova.estimators import AdditiveRegressor as AdditiveRegressor
from treeanova.readers import read_model as read_model
from treeanova.readers import register_reader as register_reader
from treeanova.report import write_report as write_report
from treeanova.terms.layout import Plan as Plan
from treeanova.terms.terms import Edit as Edit

__version__: str
