"""The OpenAPI document of the gateway is one."""

import json

import pytest
from docs.snippets import ROOT
from openapi_spec_validator import OpenAPIV31SpecValidator
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError
from referencing.exceptions import Unresolvable

TEXT = (ROOT / "schemas/openapi.json").read_text()


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(json.loads(TEXT)).validate()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [('"in": "path"', '"in": "nowhere"'), ('"3.1.0"', '"3.1"'), ("#/components/schemas/RunView", "#/nowhere")],
)
def test_a_wrong_document_is_noticed(right: str, wrong: str) -> None:
    assert right in TEXT
    with pytest.raises((OpenAPIValidationError, Unresolvable)):
        OpenAPIV31SpecValidator(json.loads(TEXT.replace(right, wrong))).validate()
