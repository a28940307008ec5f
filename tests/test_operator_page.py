"""The page of operators is what the registry and the tests say."""

from operator_page import PAGE, page


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/operator_page.py"
