"""docs/accuracy.md shows the rows that test_accuracy.py runs."""

from accuracy_page import PAGE, page


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/accuracy_page.py"
