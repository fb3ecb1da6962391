"""Tables in several Parquet files, read by the workers of a cluster."""

import contextlib
import glob
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisette import _validate
from noisette._validate import refuse
from noisette.errors import ClusterFailed, InvalidData, InvalidParameter

if TYPE_CHECKING:
    from noisette.tables import Schema


@contextlib.contextmanager
def cluster_for(table: Path, cluster: str | None, workers: int | None) -> Iterator[bool]:
    """Use a cluster inside: one that runs, or workers of this machine that end with it.

    Yields whether the table is to be read in parts: a pattern of files, or workers asked for.
    """
    if cluster is None and workers is None:
        yield glob.has_magic(str(table)) and not table.exists()
        return
    if cluster is not None and workers is not None:
        raise InvalidParameter("give --cluster or --workers, not both.")
    if workers is not None:
        _validate.integer("--workers", workers)
    from noisette.fitting.partitions.running import dask_module

    distributed = dask_module("distributed")
    with contextlib.ExitStack() as ends:
        place: Any = cluster
        try:
            if workers is not None:
                # no page of tasks: it would show how many partitions there are, to everybody
                place = ends.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers, threads_per_worker=1, dashboard_address=None
                    )
                )
            ends.enter_context(distributed.Client(place, timeout=20))
        except (OSError, ValueError) as error:
            raise ClusterFailed(
                f"no cluster answers at {cluster} ({type(error).__name__}); nothing was charged."
            ) from None
        yield True


def parts_of(table: Path, facts: "Schema") -> Any:
    """Return the table of all files that a pattern names, as the workers will read it."""
    from noisette.fitting.partitions.running import dask_module

    frames = dask_module("dask.dataframe")
    files = sorted(glob.glob(str(table)))
    refuse(
        (not files, f"no file has a name like {table}."),
        (any(Path(name).suffix != ".parquet" for name in files),
         "parts must be Parquet files, with names that end in .parquet."),
        kind=InvalidData,
    )  # fmt: skip
    known = {column.name for column in facts.columns} | {facts.target}
    failed = ""
    try:
        # whole numbers of a part with an empty cell stay whole; proof: ROW-LOCAL
        found = frames.read_parquet(files, dtype_backend="pyarrow")
        return found[[name for name in found.columns if name in known]]
    except Exception as error:  # a message of a reader may quote the file
        failed = type(error).__name__
    raise InvalidData(f"the files like {table} could not be read as one table ({failed}).")


def waiting(what: str) -> Any:
    """Show on a terminal that something is going on, and for how long: nothing else is public."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shown = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    shown.add_task(what, total=None)
    return shown
