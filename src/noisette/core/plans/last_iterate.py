"""The plan of a whole run of SGD of which only the last iterate is released."""

from dataclasses import dataclass
from typing import Any, ClassVar

from noisette import _validate
from noisette.core.mechanisms import Gaussian
from noisette.core.plans.leaves import Noisy
from noisette.core.sampling import Cyclic, FullBatch, Shuffle
from noisette.errors import InvalidParameter, Unproven


@dataclass(frozen=True, repr=False)
class LastIterate(Noisy):
    """A whole run of plain projected SGD of which *only the last iterate* is released.

    w <- w - learning_rate (regularization w + (gradient sum + noise) / batch size), every record
    once in each of `epochs` passes. The loss is one of the listed smooth convex ones on rows of
    norm at most `norm_bound` (bias column included), enforced by clipping rows. No momentum, no
    averaging, no stopping or checkpoint that looks at the data.

    Parameters
    ----------
    mechanism : Gaussian
        The noise of each step.
    sampler : Cyclic, Shuffle or FullBatch
        The order of the records.
    epochs : int
        The number of passes.
    loss : str
        The loss, by the name in its attribute ``last_iterate``.
    learning_rate : float or tuple of float
        The step size, or one for each epoch.
    regularization : float, default 0.0
        The lambda in the step above.
    norm_bound : float, default 1.0
        The bound on the rows.
    loss_parameter : float, optional
        The parameter of the loss, if it has one.
    size : int, optional
        The public number of records; None leaves it open, and the worst number counts. Under
        add-remove, where the number is not public, it is the public divisor of the gradient
        sum, and no data set may be larger.
    adjacency : Adjacency or str, optional
        The relation that the plan is bound to.

    Raises
    ------
    Unproven
        If the noise is not Gaussian, or the sampler has no proof here.
    InvalidParameter
        If a number is out of range, or there is not one learning rate per epoch.

    Examples
    --------
    >>> from noisette import mechanisms, plans, sampling
    >>> noise, order = mechanisms.Gaussian(noise_multiplier=5.0), sampling.Cyclic(batches=10)
    >>> run = plans.LastIterate(noise, order, epochs=20, loss="logistic", learning_rate=0.5)
    >>> run.draws
    200

    """

    epochs: int
    loss: str
    learning_rate: float | tuple[float, ...]
    regularization: float = 0.0
    norm_bound: float = 1.0
    loss_parameter: float | None = None
    size: int | None = None

    name: ClassVar[str] = "last-iterate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, Gaussian):
            raise Unproven(
                "last-iterate privacy is proven for Gaussian noise only; "
                "use a Gaussian, or release all iterates."
            )
        if not isinstance(self.sampler, Cyclic | Shuffle | FullBatch):
            raise Unproven(
                f"last-iterate privacy has no proof here for {self.sampler.name} batches; "
                "use cyclic, shuffle or full, or release all iterates."
            )
        object.__setattr__(self, "epochs", _validate.integer("epochs", self.epochs))
        most = 10**6 if isinstance(self.sampler, Shuffle) else 10**7
        if self.draws_per_use > most:
            raise InvalidParameter(
                f"last-iterate privacy with {self.sampler.name} batches is counted step by step, "
                f"for at most {most} steps; use larger batches, or release all iterates."
            )
        if self.size is not None:
            self.sampler.check(_validate.integer("size", self.size))
        rates = self.learning_rate
        if isinstance(rates, list | tuple):
            rates = tuple(_validate.positive("learning_rate", rate) for rate in rates)
            if len(rates) != self.epochs:
                raise InvalidParameter(
                    f"learning_rate must be one number or one per epoch; got {len(rates)} for "
                    f"{self.epochs} epochs."
                )
        else:
            rates = _validate.positive("learning_rate", rates)
        object.__setattr__(self, "learning_rate", rates)
        regularization = _validate.non_negative("regularization", self.regularization)
        object.__setattr__(self, "regularization", regularization)
        object.__setattr__(self, "norm_bound", _validate.positive("norm_bound", self.norm_bound))

    @property
    def draws_per_use(self) -> int:
        """One noise vector for each batch of each epoch."""
        return self.epochs * self.sampler.steps

    def _body(self) -> dict[str, Any]:
        rates = self.learning_rate
        return {
            **self._parts(),
            "epochs": self.epochs,
            "loss": self.loss,
            "learning_rate": list(rates) if isinstance(rates, tuple) else rates,
            "regularization": self.regularization,
            "norm_bound": self.norm_bound,
            "loss_parameter": self.loss_parameter,
            "size": self.size,
        }
