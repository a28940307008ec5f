"""The generated pages are what the registry and the tests say."""

import kink_page
import operator_page
import pytest


@pytest.mark.parametrize("page", [operator_page, kink_page], ids=lambda page: page.__name__)
def test_page_is_up_to_date(page):
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), f"run: python tests/{page.__name__}.py"
