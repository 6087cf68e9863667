"""Losses of single rows: what training minimises, its first two derivatives, and its names for users.

The loss follows from a model's objective, not from its link: means and quantiles share the scale of the outcome, and
the exponential of a score may be a mean, a hazard or a time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from treeanova.core.arrays import Bools, Floats

_TINY = 1e-16
_LEAST_BANDWIDTH = 0.05

Numbers = Callable[[Floats], Floats]


class Loss:
    """A loss of scores (n_rows, n_outputs), given an outcome; as it is, one of all rows together (see held_out.py).

    `outcome` is what `y` holds: "numbers", "labels", "intervals" (of survival times), "times" (negative if censored),
    "grades", or "anything". `is_on_scale`: scores are on the scale of the outcome. Losses of single rows define
    `per_row` and, but for a user's function, the derivatives.
    """

    name: str
    outcome: str = "numbers"
    is_on_scale: bool = False

    def __init__(self, name: str = "", outcome: str = "") -> None:
        self.name, self.outcome = name or self.name, outcome or self.outcome

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        """Return the loss of each row, shape (n_rows,)."""
        raise NotImplementedError

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        """Return the derivative with respect to the scores, in their shape."""
        raise NotImplementedError

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        """Apply the second derivative to directions, whose last two axes are those of the scores."""
        raise NotImplementedError

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        """Return the scores, one per output, of the constant prediction with the smallest loss."""
        raise NotImplementedError

    def smooth(self, score: Floats, outcome: Floats) -> Loss:  # noqa: ARG002
        """Return a loss with two derivatives and nearly the same minimum; by default itself."""
        return self

    def without_invariant_part(self, values: Floats) -> Floats:
        """Remove from values of terms, outputs last, what does not change the loss."""
        return values

    def check(self, outcome: Floats) -> None:
        """Raise ValueError for an outcome that the loss is not defined for."""
        if self.outcome == "times" and not (outcome > 0).any():
            raise ValueError(
                "`y` must have events, times above zero, got censored times only; a time is negative if censored."
            )
        if self.outcome == "times" and (outcome == 0).any():
            raise ValueError(
                "`y` must have times above zero, or below if they are censored, got 0; leave these rows out."
            )


@dataclasses.dataclass(frozen=True)
class DifferenceLoss(Loss):
    """A convex function `of_gap`, score minus outcome, with its first two derivatives, `slope` and `bend`."""

    name: str
    of_gap: Numbers
    slope: Numbers
    bend: Numbers
    outcome: str = "numbers"
    is_on_scale: bool = True
    is_squared: bool = False

    def check(self, outcome: Floats) -> None:
        if self.outcome == "labels":
            _refuse_outcome(f"must be between 0 and 1 for {self.name}", outcome, (outcome < 0) | (outcome > 1))

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray(self.of_gap(score - outcome).sum(axis=1))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return self.slope(score - outcome)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        return self.bend(score - outcome) * direction

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        if self.is_squared:
            return np.atleast_1d(np.average(outcome, axis=0, weights=weights))
        return np.array([self._best_score(column, weights) for column in outcome.T])

    def _best_score(self, outcome: Floats, weights: Floats) -> float:
        """Return the best constant for one column of the outcome."""
        return _argmin(lambda score: float(weights @ self.of_gap(score - outcome)), outcome.min(), outcome.max())


def _argmin(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function is smallest between two bounds."""
    return float(scipy.optimize.minimize_scalar(function, bounds=(low, high), method="bounded").x)


def squared_loss(name: str = "squared error", outcome: str = "numbers") -> DifferenceLoss:
    """Return the squared difference, under any name and for any kind of outcome."""
    functions = lambda gap: gap**2, lambda gap: 2 * gap, lambda gap: np.full_like(gap, 2.0)
    return DifferenceLoss(name, *functions, outcome, is_squared=True)


def expectile_loss(level: float) -> DifferenceLoss:
    """Return the squared difference, weighted by the level below the outcome and by 1 minus the level above."""
    _checked_level("expectile", level)

    def bend(gap: Floats) -> Floats:
        return 2 * np.where(gap > 0, 1 - level, level)

    name = f"expectile loss at {level:g}"
    return DifferenceLoss(name, lambda gap: bend(gap) / 2 * gap**2, slope=lambda gap: bend(gap) * gap, bend=bend)


def huber_loss(width: float) -> DifferenceLoss:
    """Return the loss that is quadratic up to a width, and linear beyond."""
    _checked_positive("huber", width)
    return DifferenceLoss(
        f"Huber loss of width {width:g}",
        lambda gap: np.where(np.abs(gap) <= width, gap**2 / 2, width * (np.abs(gap) - width / 2)),
        slope=lambda gap: np.clip(gap, -width, width),
        bend=lambda gap: (np.abs(gap) <= width).astype(np.float64),
    )


def pseudo_huber_loss(width: float) -> DifferenceLoss:
    """Return a smooth loss, quadratic within about a width and linear far out."""
    _checked_positive("pseudo_huber", width)

    def root(gap: Floats) -> Floats:
        return np.sqrt(1 + (gap / width) ** 2)

    return DifferenceLoss(
        f"pseudo-Huber loss of width {width:g}",
        lambda gap: width**2 * (root(gap) - 1),
        slope=lambda gap: gap / root(gap),
        bend=lambda gap: root(gap) ** -3,
    )


def fair_loss(width: float) -> DifferenceLoss:
    """Return a loss that is quadratic within about a width and nearly linear far out."""
    _checked_positive("fair", width)
    return DifferenceLoss(
        f"Fair loss of width {width:g}",
        lambda gap: width**2 * (np.abs(gap) / width - np.log1p(np.abs(gap) / width)),
        slope=lambda gap: gap / (1 + np.abs(gap) / width),
        bend=lambda gap: np.asarray((1 + np.abs(gap) / width) ** -2),
    )


def log_cosh_loss() -> DifferenceLoss:
    """Return the loss log cosh of score minus outcome."""
    return DifferenceLoss(
        "log-cosh loss",
        lambda gap: np.asarray(np.logaddexp(gap, -gap) - np.log(2)),
        slope=np.tanh,
        bend=lambda gap: np.asarray(1 - np.tanh(gap) ** 2),
    )


class PinballLoss(Loss):
    """The loss of a quantile.

    It has no second derivative. `smooth` convolves it with a normal distribution, whose deviation (`bandwidth`) shrinks
    with the number of rows (Fernandes, Guerre and Horta, 2021).
    """

    is_on_scale = True

    def __init__(
        self,
        level: float,
        name: str = "",
        *,
        factor: float = 1.0,
        is_relative: bool = False,
        bandwidth: float | None = None,
    ) -> None:
        super().__init__(name or f"pinball loss at {level:g}")
        self.level: float = _checked_level("pinball", level)
        self.factor: float = factor
        self.is_relative: bool = is_relative
        self.bandwidth: float | None = bandwidth

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        gap = score - outcome
        loss = gap * (self._share_below(gap) - self.level)
        if self.bandwidth is not None:
            loss += self.bandwidth * _normal_density(gap / self.bandwidth)
        return np.asarray((self._factors(outcome) * loss).sum(axis=1))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return self._factors(outcome) * (self._share_below(score - outcome) - self.level)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        if self.bandwidth is None:
            raise NotImplementedError  # a kink has none; that of `smooth()` has a bandwidth
        density = _normal_density((score - outcome) / self.bandwidth) / self.bandwidth
        return self._factors(outcome) * density * direction

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        sizes = self._factors(outcome) * weights[:, None]
        return np.array([_quantile(y, size, self.level) for y, size in zip(outcome.T, sizes.T, strict=True)])

    def smooth(self, score: Floats, outcome: Floats) -> Loss:
        gap = score - outcome
        low, high = np.quantile(gap, [0.25, 0.75])
        spread = min(gap.std(), (high - low) / 1.349) or gap.std()  # quartiles of a normal distribution
        bandwidth = max((np.log(len(gap)) / len(gap)) ** 0.4, _LEAST_BANDWIDTH) * spread
        options = {"factor": self.factor, "is_relative": self.is_relative, "bandwidth": bandwidth}
        return PinballLoss(self.level, self.name, **options)

    def _share_below(self, gap: Floats) -> Floats:
        """Return 1 where the score is above the outcome and 0 elsewhere, smoothed by the bandwidth if there is one."""
        return np.asarray(scipy.special.ndtr(gap / self.bandwidth) if self.bandwidth is not None else gap > 0, float)

    def _factors(self, outcome: Floats) -> Floats:
        """Return factors of the loss, in the shape of the outcome: for relative errors, divided by its size."""
        return self.factor / np.maximum(np.abs(outcome), 1) if self.is_relative else np.full_like(outcome, self.factor)


def _normal_density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _quantile(values: Floats, weights: Floats, level: float) -> float:
    """Return the smallest value with at least a share `level` of the weights at or below it."""
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][min(int(np.searchsorted(shares, level - 1e-12)), len(values) - 1)])


def _times_exp(factor: Floats | float, exponent: Floats) -> Floats:
    """Return a factor, 0 or above, times an exponential: 0 for a factor of 0, infinite if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.equal(factor, 0), 0.0, factor * np.exp(exponent))


class LogLoss(Loss):
    """Minus the log-likelihood of yes and no, or of shares, given log-odds."""

    name = "log loss"
    outcome = "labels"

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray((np.logaddexp(0, score) - outcome * score).sum(axis=1))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray(scipy.special.expit(score) - outcome)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:  # noqa: ARG002
        return np.asarray(scipy.special.expit(score) * scipy.special.expit(-score) * direction)

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        mean = np.average(outcome, axis=0, weights=weights)
        return np.asarray(scipy.special.logit(np.clip(mean, _TINY, 1 - _TINY)))

    def check(self, outcome: Floats) -> None:
        _refuse_outcome("must be between 0 and 1 for log loss", outcome, (outcome < 0) | (outcome > 1))


class ExponentialLoss(LogLoss):
    """AdaBoost's loss: exp(-s) for yes, exp(s) for no."""

    name = "exponential loss"

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray((_times_exp(outcome, -score) + _times_exp(1 - outcome, score)).sum(axis=1))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return _times_exp(1 - outcome, score) - _times_exp(outcome, -score)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        return (_times_exp(1 - outcome, score) + _times_exp(outcome, -score)) * direction

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        return super().best_constant(outcome, weights) / 2  # scores are half the log-odds


class MulticlassLogLoss(Loss):
    """Minus the log-likelihood of a class, given scores of all classes, whose softmax are the probabilities."""

    name = "multiclass log loss"
    outcome = "labels"

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray(scipy.special.logsumexp(score, axis=1) - (outcome * score).sum(axis=1))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return np.asarray(scipy.special.softmax(score, axis=1) - outcome)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:  # noqa: ARG002
        mean = scipy.special.softmax(score, axis=1)
        return np.asarray(mean * (direction - (mean * direction).sum(axis=-1, keepdims=True)))

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        return np.log(np.maximum(np.average(outcome, axis=0, weights=weights), _TINY))

    def without_invariant_part(self, values: Floats) -> Floats:
        return np.asarray(values - values.mean(axis=-1, keepdims=True))


class TweedieLoss(Loss):
    """Half the deviance given the log of the mean; power 1 is Poisson, power 2 is gamma."""

    def __init__(self, power: float, name: str = "") -> None:
        if not 1 <= power <= 2:
            raise ValueError(f"the power of a Tweedie loss must be between 1 and 2, got {power:g}; check `loss`.")
        super().__init__(name or f"Tweedie loss of power {power:g}")
        self.power: float = power

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        power = self.power
        of_outcome = -outcome * score if power == 1 else _times_exp(outcome / (power - 1), (1 - power) * score)
        of_mean = score if power == 2 else _times_exp(1 / (2 - power), (2 - power) * score)
        return np.asarray((of_outcome + of_mean + self._without_score(outcome)).sum(axis=1))

    def _without_score(self, outcome: Floats) -> Floats:
        """Return the part of the loss that makes it zero if the mean is the outcome."""
        power = self.power
        if power == 1:
            return np.asarray(scipy.special.xlogy(outcome, outcome) - outcome)
        return -1 - np.log(outcome) if power == 2 else outcome ** (2 - power) / ((1 - power) * (2 - power))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        return _times_exp(1.0, (2 - self.power) * score) - _times_exp(outcome, (1 - self.power) * score)

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        p = self.power
        return (_times_exp(2 - p, (2 - p) * score) + _times_exp((p - 1) * outcome, (1 - p) * score)) * direction

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        return np.log(np.maximum(np.average(outcome, axis=0, weights=weights), _TINY))

    def check(self, outcome: Floats) -> None:
        if self.power == 2:
            _refuse_outcome(f"must be positive for {self.name}", outcome, outcome <= 0)
        _refuse_outcome(f"must not be negative for {self.name}", outcome, outcome < 0)


class AftLoss(Loss):
    """Minus the log-likelihood of accelerated failure times; the outcome has lower and upper ends of each time.

    (log(time) - score) / scale has a normal, a logistic or an extreme-value (Gumbel, of minima) distribution.
    """

    outcome = "intervals"

    def __init__(self, distribution: str, scale: float) -> None:
        if distribution not in _SURVIVALS:
            names = ", ".join(map(repr, _SURVIVALS))
            raise ValueError(f"the distribution of an AFT loss must be one of {names}, got {distribution!r}.")
        super().__init__(f"AFT loss ({distribution}, scale {scale:g})")
        self.scale: float = _checked_positive("aft", scale)
        self._log_survival, self._log_density, self._density_slope = _SURVIVALS[distribution]

    def per_row(self, score: Floats, outcome: Floats) -> Floats:
        exact, low, high = self._standardized(score, outcome)
        density = self._log_density(low) - np.log(self.scale * np.where(exact, outcome[:, 0], 1.0))
        return np.where(exact, -density, -self._log_probability(low, high))

    def gradient(self, score: Floats, outcome: Floats) -> Floats:
        exact, low, high = self._standardized(score, outcome)
        first, _ = self._ratios(low, high)
        return (np.where(exact, self._density_slope(low)[0], -first) / self.scale)[:, None]

    def second_derivative_times(self, score: Floats, outcome: Floats, direction: Floats) -> Floats:
        exact, low, high = self._standardized(score, outcome)
        first, second = self._ratios(low, high)
        with np.errstate(invalid="ignore", over="ignore"):
            bend = np.where(exact, -self._density_slope(low)[1], first**2 - second) / self.scale**2
        return bend[:, None] * direction

    def best_constant(self, outcome: Floats, weights: Floats) -> Floats:
        ends = np.log(outcome[np.isfinite(outcome) & (outcome > 0)])
        room, ones = 5 * self.scale, np.ones((len(outcome), 1))
        best = _argmin(lambda s: float(weights @ self.per_row(s * ones, outcome)), ends.min() - room, ends.max() + room)
        return np.array([best])

    def _standardized(self, score: Floats, outcome: Floats) -> tuple[Bools, Floats, Floats]:
        """Return whether each time is exact, and its lower and upper end as (log(time) - score) / scale."""
        with np.errstate(divide="ignore"):
            low, high = ((np.log(end) - score[:, 0]) / self.scale for end in outcome.T)
        return outcome[:, 0] == outcome[:, 1], low, high

    def _log_probability(self, low: Floats, high: Floats) -> Floats:
        """Return the log probability of a time between two standardized ends."""
        above_low, above_high = self._log_survival(low), self._log_survival(high)
        with np.errstate(divide="ignore"):
            return np.asarray(above_low + np.log(-np.expm1(above_high - above_low)))

    def _ratios(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the first two derivatives of the probability between two ends by minus the ends, divided by it."""
        with np.errstate(invalid="ignore", over="ignore"):
            log_probability = self._log_probability(low, high)
            densities = [np.nan_to_num(np.exp(self._log_density(end) - log_probability)) for end in (low, high)]
            slopes = [np.nan_to_num(self._density_slope(end)[0], posinf=0.0, neginf=0.0) for end in (low, high)]
            second = densities[1] * slopes[1] - densities[0] * slopes[0]
        return densities[0] - densities[1], second  # meaningless if a time is exact


# Log survival function, log density, and the first two derivatives of the latter.
_SURVIVALS: dict[str, tuple[Callable[[Floats], Any], ...]] = {
    "normal": (
        lambda z: scipy.special.log_ndtr(-z),
        lambda z: -(z**2) / 2 - np.log(2 * np.pi) / 2,
        lambda z: (-z, np.full_like(z, -1.0)),
    ),
    "logistic": (
        lambda z: -np.logaddexp(0, z),
        lambda z: -np.logaddexp(0, z) - np.logaddexp(0, -z),
        lambda z: (-np.tanh(z / 2), -(1 - np.tanh(z / 2) ** 2) / 2),
    ),
    "extreme": (lambda z: -np.exp(z), lambda z: z - np.exp(z), lambda z: (1 - np.exp(z), -np.exp(z))),
}


def _checked_positive(name: str, number: float) -> float:
    """Return the parameter of a loss, given by name for an error, if it is positive."""
    if not number > 0:
        raise ValueError(f"the parameter of the loss {name!r} must be positive, got {number:g}; check `loss`.")
    return number


def _checked_level(name: str, number: float) -> float:
    """Return the level of a loss, given by name for an error, if it is between 0 and 1."""
    if not 0 < number < 1:
        raise ValueError(f"the level of the loss {name!r} must be between 0 and 1, got {number:g}; check `loss`.")
    return number


def _refuse_outcome(rule: str, outcome: Floats, is_bad: Bools) -> None:
    """Raise ValueError with a rule, such as "must be positive", if one of the outcomes is bad."""
    if is_bad.any():
        raise ValueError(f"`y` {rule}, got {float(outcome[is_bad][0]):.6g}; check the outcome, or pass another `loss`.")


class UserLoss(Loss):
    """A user's function of scores and outcomes that returns a loss per row; it has no derivatives."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        name = getattr(function, "__name__", type(function).__name__).replace("<lambda>", "the given loss")
        super().__init__(name, "anything")
        self.function = function

    def per_row(self, score: Floats, outcome: Any) -> Floats:
        flat_score = score[:, 0] if score.shape[1] == 1 else score
        loss = np.asarray(self.function(flat_score.copy(), outcome.copy()), dtype=np.float64)  # it may work in place
        if loss.shape != (len(score),) or not np.isfinite(loss).all():
            what = f"shape {loss.shape}" if loss.shape != (len(score),) else "losses that are not finite"
            raise ValueError(
                f"`loss` must return one finite loss per row, shape ({len(score)},), got {what}; do not average them."
            )
        return loss


_PLAIN: dict[str, Callable[[], Loss]] = {
    "squared": squared_loss,
    "absolute": lambda: PinballLoss(0.5, "absolute error", factor=2.0),
    "mape": lambda: PinballLoss(0.5, "absolute percentage error", factor=2.0, is_relative=True),
    "log_cosh": log_cosh_loss,
    "log": LogLoss,
    "multiclass": MulticlassLogLoss,
    "brier": lambda: squared_loss("Brier score", "labels"),
    "exponential": ExponentialLoss,
    "poisson": lambda: TweedieLoss(1.0, "Poisson loss"),
    "gamma": lambda: TweedieLoss(2.0, "gamma loss"),
    "cox": lambda: Loss("Cox partial likelihood", "times"),
    "pairwise": lambda: Loss("pairwise logistic loss", "grades"),
}
_WITH_NUMBER: dict[str, Callable[[float], Loss]] = {
    "pinball": PinballLoss,
    "expectile": expectile_loss,
    "huber": huber_loss,
    "pseudo_huber": pseudo_huber_loss,
    "fair": fair_loss,
    "tweedie": TweedieLoss,
}
# Losses that take the scores of a link; models with other links are judged by any loss, because their scale is unknown.
_LOSSES_OF_LINK = {
    "logit": {"log", "exponential", "pairwise"},
    "softmax": {"multiclass"},
    "probability": {
        "brier",
        "squared",
        "absolute",
        "huber",
        "pseudo_huber",
        "fair",
        "log_cosh",
        "pinball",
        "expectile",
    },
    "log": {"poisson", "gamma", "tweedie", "cox", "aft", "pairwise"},
}
_SCORE_OF_LINK = {
    "logit": "log-odds",
    "softmax": "the logarithms of probabilities, up to a constant",
    "probability": "a probability",
    "log": "the logarithm of a mean",
}
LOSS_NAMES = (*_PLAIN, *(f"{name}:NUMBER" for name in _WITH_NUMBER), "aft:DISTRIBUTION:SCALE")


def named_losses(text: str, n_outputs: int) -> list[Loss] | None:
    """Return the loss of each output from a name such as "squared" or "pinball:0.1:0.9"; None for unknown names."""
    name, *parameters = text.split(":")
    if name in _PLAIN and not parameters:
        return [_PLAIN[name]()] * n_outputs
    if name == "aft" and len(parameters) == 2:
        return [AftLoss(parameters[0], _parsed_number(text, parameters[1]))] * n_outputs
    if name not in _WITH_NUMBER or len(parameters) not in {1, n_outputs}:
        return None
    losses = [_WITH_NUMBER[name](_parsed_number(text, parameter)) for parameter in parameters]
    return losses * n_outputs if len(losses) == 1 else losses


def check_link(text: str, link: str) -> None:
    """Raise ValueError if a loss, given by its name, does not take the scores of a model with this link."""
    allowed, (loss, _, transformation) = _LOSSES_OF_LINK.get(link), text.partition(" of ")
    name = loss.partition(":")[0]
    is_of_log = link == "log" and transformation == "log" and name in _LOSSES_OF_LINK["probability"]
    if allowed is not None and not is_of_log and (transformation or name not in allowed):
        raise ValueError(
            f"`loss` must be a loss of scores that are {_SCORE_OF_LINK[link]}: {', '.join(sorted(allowed))}; got "
            f"{text!r}. For a loss of the response, pass a function of scores and outcomes that converts the scores."
        )


def _parsed_number(text: str, parameter: str) -> float:
    """Return a parameter of a loss as a number; `text` is the whole name, for an error."""
    try:
        return float(parameter)
    except ValueError:
        raise ValueError(f"`loss` must have a number in place of {parameter!r}, got {text!r}.") from None
