from __future__ import annotations

import base64
import hashlib

from treeanova import views as look
from treeanova.report.static import asset, colours, digest


def test_parts_of_a_style():
    assert ":root" in asset("page.css")
    assert f"--main:{look.MAIN};" in colours()
    assert digest("a") == f"'sha256-{base64.b64encode(hashlib.sha256(b'a').digest()).decode()}'"
