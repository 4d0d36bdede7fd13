"""Rules in CEL: the functions of Kubernetes, old values, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.errors import InputError
from fleet.hub.schema.cel import rules as rules_module
from fleet.hub.schema.cel.reads import Fields, select
from fleet.hub.schema.cel.rules import compile_rule, compile_rules, uses_old_self
from fleet.hub.schema.cel.values import escape
from fleet.hub.schema.field_errors import SchemaFinding
from fleet.model.catalog import CATALOG
from fleet.model.crd_generator import build_crd
from tests.bench.hostile import SHAPES, build_policy

pytestmark = pytest.mark.cel


def broken(schema: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    found: list[SchemaFinding] = []
    check = compile_rules(schema)
    assert check is not None
    check(value, old, None, found)
    return [str(finding.as_field_error()) for finding in found]


def a_rule(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "x-kubernetes-validations": [{"rule": text, **more}]}


@pytest.mark.parametrize(
    "text",
    [
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
        "quantity('1024Mi') == quantity('1Gi')",
        "quantity('1').add(2) == quantity('3') && quantity('3').sub(quantity('1')).asInteger() == 2",
        "quantity('250m').sign() == 1 && !quantity('250m').isInteger()",
        "!isQuantity('3x')",
        "url('https://a.example:80/x?y=1').getHost() == 'a.example:80'",
        "url('https://a.example:80/x?y=1').getHostname() == 'a.example'",
        "url('https://a.example/x?y=1').getQuery() == {'y': ['1']}",
        "!isURL('a b')",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "[1, 2].sum() == 3 && [3, 1].max() == 3 && [3, 1].min() == 1 && ['a', 'b'].isSorted()",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
        "ip('::1').isLoopback() && ip('10.0.0.1').family() == 4 && !isIP('x')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.1/8').masked() == cidr('10.0.0.0/8')",
        "'abc'.indexOf('c') == 2 && 'A'.lowerAscii() == 'a'",
    ],
)
def test_functions_of_kubernetes_are_there(text: str) -> None:
    assert broken(a_rule(text), {}) == []


def test_a_rule_that_compares_with_the_past_is_skipped_on_creation() -> None:
    schema = a_rule("self.n >= oldSelf.n", message="must not shrink")
    assert broken(schema, {"n": 1}) == []
    assert broken(schema, {"n": 1}, {"n": 2}) == ['<nil>: Invalid value: "object": must not shrink']


def test_a_rule_may_take_a_missing_past() -> None:
    schema = a_rule("oldSelf.hasValue() || self.n == 0", optionalOldSelf=True, message="starts at 0")
    assert broken(schema, {"n": 0}) == []
    assert broken(schema, {"n": 1}, {"n": 0}) == []
    assert broken(schema, {"n": 1}) == ['<nil>: Invalid value: "object": starts at 0']


def test_items_of_a_list_map_are_compared_with_their_former_selves() -> None:
    item = {"type": "object", "properties": {"k": {"type": "string"}}, **a_rule("self.v >= oldSelf.v", message="no")}
    lists = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    schema = {"type": "array", "items": item, **lists}
    old = [{"k": "a", "v": 1}, {"k": "b", "v": 5}]
    assert broken(schema, [{"k": "b", "v": 4}, {"k": "a", "v": 2}, {"k": "c", "v": 0}], old) == [
        '[0]: Invalid value: "object": no'
    ]


def test_a_message_expression_that_fails_gives_way_to_the_message() -> None:
    schema = a_rule("false", message="plain", messageExpression="'x' + self.missing")
    assert broken(schema, {}) == ['<nil>: Invalid value: "object": plain']


@pytest.mark.parametrize("text", ["'a\\nb'", "'  '", "''"])
def test_a_message_expression_gives_one_line_or_nothing(text: str) -> None:
    schema = a_rule("1 == 2", messageExpression=text)
    assert broken(schema, {}) == ['<nil>: Invalid value: "object": failed rule: 1 == 2']


def test_nested_rules_of_all_of_know_the_type_of_the_value() -> None:
    schema = {"type": "object", "allOf": [{"x-kubernetes-validations": [{"rule": "false", "message": "no"}]}]}
    assert broken(schema, {}) == ['<nil>: Invalid value: "object": no']


@pytest.mark.parametrize(
    "name, want",
    [
        ("namespace", "__namespace__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("plain", "plain"),
    ],
)
def test_names_of_fields_are_escaped(name: str, want: str) -> None:
    assert escape(name) == want


def test_the_past_in_a_text_is_only_a_text() -> None:
    assert not uses_old_self("self.a == 'oldSelf'")
    assert uses_old_self("self.a == oldSelf.a")


@pytest.mark.parametrize(
    "rule, field",
    [
        ({"rule": "self.all(i, v, v > 0)"}, "rule"),
        ({"rule": "authorizer.path('/x').check('get').allowed()"}, "rule"),
        ({"rule": "size(self)"}, "rule"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression"),
        ({"rule": "true", "reason": "FieldValueNotFound"}, "reason"),
        ({"rule": "true", "fieldPath": "x["}, "fieldPath"),
    ],
)
def test_rules_that_do_not_work_here_are_refused(rule: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as raised:
        compile_rule(rule, {"type": "object"})
    assert raised.value.field == field


def test_comparing_a_field_with_a_time_is_refused() -> None:
    schema = {"type": "object", "properties": {"t": {"type": "string", "format": "date-time"}}}
    with pytest.raises(InputError, match="cannot compare"):
        compile_rule({"rule": "self.t > timestamp('2020-01-01T00:00:00Z')"}, schema)


@pytest.mark.parametrize(
    "text, of_self, of_old",
    [
        ("has(self.a) && self.b.c == 'self.d'", {"a": {}, "b": {"c": None}}, {}),
        ("has(self.a.b) || self.a.c > oldSelf.a.c", {"a": {"b": {}, "c": None}}, {"a": {"c": None}}),
        ("self.a.b == 1 && self.a.size() == 1 && has(self.a)", {"a": None}, {}),
        ("self.xs.all(x, x > self . n)", {"xs": None, "n": None}, {}),
        ("self == oldSelf", None, None),
        ("self.size() > 0 && has(oldSelf.a)", None, {"a": {}}),
        ("self.xs.all(self, self > 1)", None, {}),
        ("self['a'] == 1", None, {}),
        ("self.a[0].b == 1", {"a": None}, {}),
        ("self.?a.orValue(1) == 1", None, {}),
        ("self.a == 1 // don't, it's self.b", None, None),
        ("self.a == r'x' || self.b == 'x'", None, None),
        ("self.a == '''it's''' || self.b == 'x'", None, None),
    ],
)
def test_what_a_rule_reads(text: str, of_self: Fields | None, of_old: Fields | None) -> None:
    assert compile_rule({"rule": text}, {"type": "object"}).reads == (of_self, of_old)


def test_an_optional_past_is_read_as_a_whole() -> None:
    rule = {"rule": "self.a == 1 || oldSelf.hasValue()", "optionalOldSelf": True}
    assert compile_rule(rule, {"type": "object"}).reads == ({"a": None}, None)


@pytest.mark.parametrize(
    "value, fields, selected",
    [
        ({"a": [1], "b": {"c": 1, "d": 2}, "e": 3}, {"a": {}, "b": {"c": None}}, {"a": [], "b": {"c": 1}}),
        ({"a": {"b": 1}}, None, {"a": {"b": 1}}),
        ({"a.b": 1, "in": 2, "c": 3}, {"a__dot__b": None, "__in__": None}, {"a.b": 1, "in": 2}),
        ({"a": None, "b": "text"}, {"a": {}, "b": {"c": None}}, {"a": None, "b": "text"}),
        (["a"], {"b": None}, ["a"]),
    ],
)
def test_a_rule_gets_what_it_reads(value: Any, fields: Fields | None, selected: Any) -> None:
    assert select(value, fields) == selected


@pytest.mark.parametrize("shape", SHAPES)
def test_the_rules_of_placements_do_not_read_the_long_lists_of_policies(shape: str) -> None:
    """The library converts what they read for every evaluation."""
    policy = build_policy(shape, 1_000, most_bytes=0)
    spec = {"resourceSelectors": [{"kind": "Namespace", "name": "a"}], "policy": policy}
    resource = next(each for each in CATALOG if each.plural == "clusterresourceplacements")
    of_spec = build_crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for schema, value in ((of_spec, spec), (of_spec["properties"]["policy"], policy)):
        rules = [compile_rule(rule, schema) for rule in schema["x-kubernetes-validations"]]
        read = [select(value, fields) for rule in rules for fields in rule.reads]
        assert rules
        assert max(len(json.dumps(each)) for each in read) < 8_000 < len(json.dumps(value))


def test_rules_on_the_whole_value_and_their_messages_share_its_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Any] = []
    build = rules_module._build_activation

    def count(value: Any, old: Any, convert: Any) -> Any:
        built.append(value)
        return build(value, old, convert)

    monkeypatch.setattr(rules_module, "_build_activation", count)
    texts = ["size(self) == 2", "self.all(name, name != 'c')", "self == {}"]
    rules = [{"rule": text, "messageExpression": "string(size(self))"} for text in texts]
    whole = {"a": "x", "b": "y"}
    schema = {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-validations": rules}

    assert len(broken(schema, whole)) == 1
    assert built == [whole]
