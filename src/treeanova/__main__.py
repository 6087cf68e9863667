"""``python -m treeanova``: the command line, with one line where it is not installed or is stopped while it loads."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exit status 2 where its libraries are missing, 130 on Ctrl-C."""
    try:
        from treeanova import cli  # noqa: PLC0415  its libraries may be missing
    except ImportError as error:
        sys.stderr.write(f"treeanova: {error}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    cli.main()


if __name__ == "__main__":
    main()
