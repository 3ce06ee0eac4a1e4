"""Which folders hold code that collc may run: those that only its user, and whoever installed collc, can write.

Numba keeps machine code in its cache and runs what it finds there. So a cache needs what `ssh` requires of a folder of
keys: nobody else can put a file there, or another folder in its place.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

CODE: Final = Path(__file__).resolve().parent.parent
"""The folder of the package. Whoever can write here, or in a folder above, can change collc itself."""


class UntrustedFolder(UserWarning):
    """A warning: a folder is not used, since others can write to it."""


def is_trusted(folder: Path, code: Path = CODE) -> bool:
    """Whether only the user, root, and whoever can write to the folder of the code can write to a folder.

    A folder that does not exist yet is judged by the folder in which it will be made.
    """
    if sys.platform == "win32":  # the folders of a user are closed to others there
        return True
    folder = folder.resolve()
    existing = (path for path in (folder, *folder.parents) if path.exists() and not code.is_relative_to(path))
    return all(_is_closed(path.stat(), code.stat(), is_above=path != folder) for path in existing)


def _is_closed(status: os.stat_result, code: os.stat_result, *, is_above: bool) -> bool:
    """Whether only trusted users can write to a folder. is_above: others may write there if it is sticky, as /tmp is:
    they cannot rename what is not theirs.
    """
    if status.st_uid not in {0, os.geteuid(), code.st_uid}:
        return False
    open_to = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH & ~code.st_mode)
    if is_above and status.st_mode & stat.S_ISVTX:
        return True
    if open_to & stat.S_IWGRP and (_is_own_group(status.st_gid) or _is_group_of_code(status.st_gid, code)):
        open_to &= ~stat.S_IWGRP
    return not open_to


def _is_group_of_code(group: int, code: os.stat_result) -> bool:
    return group == code.st_gid and bool(code.st_mode & stat.S_IWGRP)


def _is_own_group(group: int) -> bool:
    """Whether a group has the user's name and no other member: many systems give each user such a group."""
    import grp
    import pwd

    try:
        name, known = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return known.gr_name == name and set(known.gr_mem) <= {name}
