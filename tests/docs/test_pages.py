"""Every block of Python in the documentation runs, page by page."""

import re
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"

# Made from code, where the blocks are fragments of kernels, tested there.
GENERATED = {"rules.md", "op-reference.md", "transformations.md", "supported.md"}

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
WRITTEN = [README, *sorted(p for p in DOCS.glob("*.md") if p.name not in GENERATED)]
PAGES = [page for page in WRITTEN if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, capsys):
    text = page.read_text()
    blocks = [(text.count("\n", 0, m.start(1)), m[1]) for m in BLOCK.finditer(text)]
    names = {"__name__": page.stem}
    for line, block in blocks:
        # Lines of an error, and of a kernel's report, are those of the page.
        exec(compile("\n" * line + block, str(page), "exec"), names)
    jax.effects_barrier()
    capsys.readouterr()


def test_every_page_is_in_the_navigation():
    navigation = (DOCS.parent / "mkdocs.yml").read_text()
    missing = [p.name for p in DOCS.glob("*.md") if p.name not in navigation]
    assert not missing
