"""Progress bars on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


@contextmanager
def bars(*, shown: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A function that is told a name, how much of it is done, and of how much; it draws a bar for each name.

    Args:
        shown: Whether anything is drawn.
    """
    if not shown:
        yield lambda _name, _done, _total: None
        return
    label = TextColumn("{task.description:14}", markup=False)  # names of implementations hold square brackets
    columns = (label, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:

        def update(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done, total=total)

        yield update
