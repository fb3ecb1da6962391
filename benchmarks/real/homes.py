"""Where every file of every dataset is published, and the SHA-256 of its content.

A checksum is taken of the *content* in one fixed form, not of the download, because the same rows
are published as gzip (whose header holds a date), inside a zip archive, or with other line ends:

=========  =====================================================================================
``bytes``  the uncompressed file as it is (IDX)
``text``   line ends as LF
``rows``   line ends as LF, without the first line (a header that differs between editions)
=========  =====================================================================================

`docs/datasets.md` says what of this could be checked without a network.
"""

import hashlib
from dataclasses import dataclass

__all__ = ["FILES", "Home", "PublishedFile", "published_file"]


@dataclass(frozen=True)
class Home:
    """One public address. `members` leads into a zip archive, and into one inside it, and so on."""

    url: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedFile:
    """One file: its name uncompressed, size and SHA-256 of its content in `form`, its homes."""

    name: str
    size: int
    sha256: str
    homes: tuple[Home, ...]
    form: str = "text"

    def stored(self, content: bytes) -> bytes:
        """Return what is written to disk: `content` with LF line ends (IDX files: as it is)."""
        return content if self.form == "bytes" else content.replace(b"\r\n", b"\n")

    def digest(self, content: bytes) -> str:
        """Return the SHA-256 of `content` in this file's form."""
        plain = self.stored(content)
        if self.form == "rows":
            plain = plain.partition(b"\n")[2]
        return hashlib.sha256(plain).hexdigest()


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_UCI_ZIP = "https://archive.ics.uci.edu/static/public"
_KDD = "http://kdd.ics.uci.edu/databases/kddcup99"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist",)
_FASHION = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
)


def _idx(homes: tuple[str, ...], *sums: str) -> tuple[PublishedFile, ...]:
    """The four IDX files: training images and labels, test images and labels."""
    names = (
        ("train-images-idx3-ubyte", 47_040_016),
        ("train-labels-idx1-ubyte", 60_008),
        ("t10k-images-idx3-ubyte", 7_840_016),
        ("t10k-labels-idx1-ubyte", 10_008),
    )
    return tuple(
        PublishedFile(
            name, size, sha256, tuple(Home(f"{home}/{name}.gz") for home in homes), "bytes"
        )
        for (name, size), sha256 in zip(names, sums, strict=True)
    )


FILES: dict[str, tuple[PublishedFile, ...]] = {
    "adult": (
        PublishedFile(
            "adult.data",
            3_974_305,
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            (
                Home(f"{_UCI}/adult/adult.data"),
                Home(f"{_UCI_ZIP}/2/adult.zip", ("adult.data",)),
            ),
        ),
        PublishedFile(
            "adult.test",
            2_003_153,
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            (
                Home(f"{_UCI}/adult/adult.test"),
                Home(f"{_UCI_ZIP}/2/adult.zip", ("adult.test",)),
            ),
        ),
    ),
    "bank_marketing": (
        PublishedFile(
            "bank-full.csv",
            4_610_348,
            "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
            (
                Home(f"{_UCI}/00222/bank.zip", ("bank-full.csv",)),
                Home(f"{_UCI_ZIP}/222/bank+marketing.zip", ("bank.zip", "bank-full.csv")),
            ),
        ),
    ),
    "covertype": (
        PublishedFile(
            "covtype.data",
            75_169_317,
            "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
            (
                Home(f"{_UCI}/covtype/covtype.data.gz"),
                Home(f"{_UCI_ZIP}/31/covertype.zip", ("covtype.data.gz",)),
            ),
        ),
    ),
    "credit_default": (
        # UCI's own CSV edition (header ID, X1, ..., X23, Y); the .xls edition is not read.
        PublishedFile(
            "UCI_Credit_Card.csv",
            2_867_208,
            "7a997356381d85a22043b565953c883884ba293b431cf0187c841d4d506824df",
            (Home(f"{_UCI_ZIP}/350/data.csv"),),
            "rows",
        ),
    ),
    "kddcup99": (
        PublishedFile(
            "kddcup.data_10_percent",
            74_889_749,
            "f8c8267ebcd9c0ed1fd7d6277fe5bfff8732e9b7db8e61b873542b2a534b6f9a",
            (
                Home(f"{_KDD}/kddcup.data_10_percent.gz"),
                Home("https://ndownloader.figshare.com/files/5976042"),
            ),
        ),
        PublishedFile(
            "corrected",
            47_251_540,
            "547dfb9c0f0dc1d9944219ec79e851191faebaeb8acbfa1cd171c418397052a4",
            (Home(f"{_KDD}/corrected.gz"),),
        ),
    ),
    "mnist": _idx(
        _MNIST,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    "fashion_mnist": _idx(
        _FASHION,
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
}


def published_file(folder: str, name: str) -> PublishedFile | None:
    """Return what is known of file `name` in dataset folder `folder`, or None."""
    return next((file for file in FILES.get(folder, ()) if file.name == name), None)
