"""Attributes of a node as Python values, those left out filled in with the defaults of its operator set."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import onnx
from onnx import defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as native

_OMITTED_DEFAULTS: Mapping[tuple[str, str], Mapping[str, Any]] = MappingProxyType(
    {
        ("", "Pad"): {"value": 0.0},
        ("com.microsoft", "Attention"): {"mask_filter_value": -10000.0},
        ("com.microsoft", "QAttention"): {"mask_filter_value": -10000.0},
        ("com.microsoft", "MultiHeadAttention"): {"mask_filter_value": -10000.0},
        ("com.microsoft", "EmbedLayerNormalization"): {"epsilon": 1e-12},
        ("com.microsoft", "SkipLayerNormalization"): {"epsilon": 1e-12},
        ("com.microsoft", "SkipSimplifiedLayerNormalization"): {"epsilon": 1e-12},
    }
)
"""Defaults that the operators' documentation states and their schemas do not."""


def attributes_of(node: onnx.NodeProto, opset: int) -> dict[str, Any]:
    """Attributes of ``node`` by name; text as ``str``, tensors as ``TensorProto``, graphs as ``GraphProto``.

    Args:
        node: Any node.
        opset: Version of the operator set of its domain.
    """
    given = {attribute.name: _value(attribute) for attribute in node.attribute}
    return {**_defaults(_domain(node), node.op_type, opset), **given}


def _domain(node: onnx.NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def _value(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)):
        return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in value]
    return value


@cache
def _defaults(domain: str, op: str, opset: int) -> Mapping[str, Any]:
    if domain == "" and defs.has(op, opset):
        schema = defs.get_schema(op, opset, domain)
        found: Mapping[str, Any] = {name: entry.default_value for name, entry in schema.attributes.items()}
    else:
        found = _runtime_defaults().get((domain, op), {})
    known = {name: _value(value) for name, value in found.items() if value.type}
    return {**_OMITTED_DEFAULTS.get((domain, op), {}), **known}


@cache
def _runtime_defaults() -> Mapping[tuple[str, str], Mapping[str, onnx.AttributeProto]]:
    """Defaults of ONNX Runtime's own operators, by domain and operator."""
    return {
        (schema.domain, schema.name): {
            name: onnx.AttributeProto.FromString(attribute._default_value)  # noqa: SLF001 – there is no public way
            for name, attribute in schema.attributes.items()
        }
        for schema in native.get_all_operator_schema()
        if schema.domain.startswith("com.microsoft") or schema.name == "SimplifiedLayerNormalization"
    }
