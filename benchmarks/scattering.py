"""Scattering features of images: fixed wavelets, nothing learned, so nothing to protect.

Bruna and Mallat 2013, order 2, two scales, eight angles: 81 maps of 7 x 7 for a 28 x 28 image. The
kymatio package does the same but does not import with a current SciPy.
"""

import numpy as np
import torch
from torch import Tensor

SCALES, ANGLES = 2, 8
_STEP = 2**SCALES


def _gabor(size: int, sigma: float, angle: float, xi: float, slant: float) -> np.ndarray:
    """Return an oriented Gaussian wave of that many pixels, made periodic."""
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    curve = turn @ np.diag([1.0, slant**2]) @ turn.T / (2.0 * sigma**2)
    wave = np.zeros((size, size), dtype=complex)
    for shift_x in (-2, -1, 0, 1, 2):
        for shift_y in (-2, -1, 0, 1, 2):
            x, y = np.mgrid[:size, :size] + np.array([shift_x, shift_y])[:, None, None] * size
            square = curve[0, 0] * x * x + 2.0 * curve[0, 1] * x * y + curve[1, 1] * y * y
            wave += np.exp(-square + 1j * xi * (x * np.cos(angle) + y * np.sin(angle)))
    return wave / (2.0 * np.pi * sigma**2 / slant)


def _morlet(size: int, scale: int, angle: float) -> np.ndarray:
    """Return the Fourier transform of a Morlet wavelet: a wave with its mean taken out."""
    sigma, xi, slant = 0.8 * 2**scale, 0.75 * np.pi / 2**scale, 4.0 / ANGLES
    wave, bump = (_gabor(size, sigma, angle, f, slant) for f in (xi, 0.0))
    wave -= wave.sum() / bump.sum() * bump
    return np.fft.fft2(wave).real


class Scattering:
    """Features of square images of `side` pixels, computed without looking at any data."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.size = ((side + _STEP) // _STEP + 1) * _STEP
        self._low = torch.tensor(
            np.fft.fft2(_gabor(self.size, 0.8 * 2 ** (SCALES - 1), 0.0, 0.0, 1.0)).real,
            dtype=torch.float32,
        )
        angles = [np.pi * k / ANGLES for k in range(ANGLES)]
        self._waves = [
            torch.tensor(np.array([_morlet(self.size, j, a) for a in angles]), dtype=torch.float32)
            for j in range(SCALES)
        ]

    def __call__(self, images: Tensor) -> Tensor:
        """Return shape (n, 81, side / 4, side / 4) for images of shape (n, side, side)."""
        before = (self.size - self.side) // 2
        after = self.size - self.side - before
        padded = torch.nn.functional.pad(
            images[:, None], (before, after, before, after), mode="reflect"
        )
        spectrum = torch.fft.fft2(padded)
        maps = [self._averaged(spectrum)]
        for scale, waves in enumerate(self._waves):
            first = self._modulus(spectrum * waves, 2**scale)
            maps.append(self._averaged(first))
            for later in self._waves[scale + 1 :]:
                second = self._modulus((first[:, :, None] * later).flatten(1, 2), _STEP // 2)
                maps.append(self._averaged(second))
        return torch.cat(maps, dim=1)

    @staticmethod
    def _folded(spectrum: Tensor, step: int) -> Tensor:
        """Return the spectrum of the same map on every `step`-th pixel."""
        n, count, size = spectrum.shape[:3]
        small = size // step
        return spectrum.view(n, count, step, small, step, small).mean(dim=(2, 4))

    def _modulus(self, spectrum: Tensor, step: int) -> Tensor:
        """Return the spectrum of the modulus; coarse scales need only every `step`-th pixel."""
        folded = self._folded(spectrum, step) if step > 1 else spectrum
        return torch.fft.fft2(torch.fft.ifft2(folded).abs())

    def _averaged(self, spectrum: Tensor) -> Tensor:
        """Return the low-passed maps, one value for every four pixels, without the padding."""
        size = spectrum.shape[-1]
        # The low-pass of a coarser grid: its low frequencies, which is all it has.
        half = size // 2
        kept = [*range(half), *range(self.size - half, self.size)]
        low = self._low[kept][:, kept]
        folded = self._folded(spectrum * low, size * _STEP // self.size)
        return torch.fft.ifft2(folded).real[:, :, 1:-1, 1:-1]
