"""Gradients and optima of small problems in multiple precision: the solvers' oracle."""

import mpmath as mp
import numpy as np

from noisette.fitting.losses import Huber, HuberHinge, Logistic, Loss, SoftplusHinge, Squared


def sigma(t):
    return 1 / (1 + mp.exp(-t)) if t > 0 else mp.exp(t) / (1 + mp.exp(t))


def slopes(loss: Loss, t):
    """(l', l'') at the multiple-precision number t."""
    if isinstance(loss, Logistic):
        return -sigma(-t), sigma(t) * sigma(-t)
    if isinstance(loss, SoftplusHinge):
        s = mp.mpf(loss.temperature)
        z = s * (1 - t)
        return -sigma(z), s * sigma(z) * sigma(-z)
    if isinstance(loss, HuberHinge):
        h = mp.mpf(loss.width)
        inside = abs(1 - t) <= h
        return -min(max((1 + h - t) / (2 * h), mp.mpf(0)), mp.mpf(1)), int(inside) / (2 * h)
    if isinstance(loss, Huber):
        c = mp.mpf(loss.threshold)
        return min(max(t, -c), c), mp.mpf(int(abs(t) <= c))
    assert isinstance(loss, Squared)
    return t, mp.mpf(1)


class ExactProblem:
    """sum omega l + (Lambda/2)||w||^2 + b.w with every float taken as an exact number."""

    def __init__(self, loss, X, y, lam, omega=None, b=None):
        self.loss = loss
        self.X = [[mp.mpf(float(v)) for v in row] for row in X]
        self.y = [mp.mpf(float(v)) for v in y]
        n, self.d = X.shape
        self.omega = [mp.mpf(1)] * n if omega is None else [mp.mpf(float(v)) for v in omega]
        self.b = [mp.mpf(0)] * self.d if b is None else [mp.mpf(float(v)) for v in b]
        self.lam = mp.mpf(float(lam))

    def gradient(self, w, hessian=False):
        d = self.d
        g = [self.lam * w[j] + self.b[j] for j in range(d)]
        H = mp.eye(d) * self.lam
        for x, y, omega in zip(self.X, self.y, self.omega, strict=True):
            score = mp.fdot(x, w)
            margin = self.loss.kind == "margin"
            l1, l2 = slopes(self.loss, y * score if margin else score - y)
            for j in range(d):
                g[j] += omega * l1 * (y if margin else 1) * x[j]
                if hessian:
                    for k in range(d):
                        H[j, k] += omega * l2 * x[j] * x[k]
        return (mp.matrix(g), H) if hessian else mp.matrix(g)

    def gradient_norm(self, w):
        return mp.norm(self.gradient([mp.mpf(float(v)) for v in w]))

    def optimum(self, start):
        """Newton from a float point to 30 digits."""
        w = mp.matrix([mp.mpf(float(v)) for v in start])
        for _ in range(60):
            g, H = self.gradient(list(w), hessian=True)
            if mp.norm(g) < mp.mpf(10) ** -28:
                break
            w = w - mp.lu_solve(H, g)
        assert mp.norm(self.gradient(list(w))) < mp.mpf(10) ** -20
        return w

    def distance(self, w):
        best = self.optimum(w)
        return mp.norm(mp.matrix([mp.mpf(float(v)) for v in w]) - best)


def clipped_rows(rng, n, d, R=1.0):
    X = rng.normal(size=(n, d))
    return X * (R / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), R))
