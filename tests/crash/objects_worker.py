"""Archives sessions to an object store, restores them, or undoes the archiving: to be killed.

`python -m tests.crash.objects_worker archive|restore|undo ROOT URL ENDPOINT`
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.homes.options import ArchiveOptions
from holdfast.spine.undo import undo
from holdfast.stores.blobs import object_store
from tests.archiving import STAMPED, archive, bring, clock, opened
from tests.object_servers import HASTY

ALL = ("leaf", "middle", STAMPED)


def main(step: str, root: str, url: str, endpoint: str) -> None:
    setattr(object_store, "Patience", lambda: HASTY)  # noqa: B010 - it is no export of that module
    home = opened(Path(root), ArchiveOptions(url=url, endpoint=endpoint))
    if step == "archive":
        archive(home, *ALL)
    elif step == "restore":
        bring(home)
    else:
        undo(home, "1", clock=clock)
    home.close()


if __name__ == "__main__":
    main(*sys.argv[2:])
