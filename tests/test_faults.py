"""`make faults` takes minutes and is run seldom; that it still fits the code is seen at once."""

import pytest

from tests.faults import FAULTS, ROOT, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_code(fault: Fault):
    code = (ROOT / "src" / "bytenet" / fault.file).read_text(encoding="utf-8")
    assert code.count(fault.right) == 1
    compile(code.replace(fault.right, fault.wrong), fault.file, "exec")
