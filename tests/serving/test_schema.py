"""Requests made from the service's own OpenAPI document, valid and almost valid: none is a fault of the service."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from tests.serving.servers import serving

EXAMPLES = 40


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_request_is_answered_by_a_fault(mode):
    with serving(seconds=5.0, most_symbols=64, most_characters=300) as service:
        schema = schemathesis.openapi.from_url(f"{service.address}/openapi.json")
        for found in schema.get_all_operations():
            operation = found.ok()
            if mode.is_negative and not operation.body:
                continue  # there is nothing to do wrong

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
            def check(case: schemathesis.Case) -> None:
                assert case.call(base_url=service.address).status_code < 500

            check()
