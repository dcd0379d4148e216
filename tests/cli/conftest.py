import pytest

from tests.cli.console import Here


@pytest.fixture
def here(capsysbinary: pytest.CaptureFixture[bytes]) -> Here:
    return Here(capsysbinary)
