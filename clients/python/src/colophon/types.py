"""The shapes of records and answers, for type checkers. openapi.yaml describes all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional, TypedDict, Union

Kind = Literal["ipc_record", "run_dag", "citation_set", "path_fingerprint", "record_state_changed", "note", "path_validated"]


class Environment(TypedDict, total=False):
    ollama_build_hash: str
    model_digest: str
    host_platform: str


class Fields(TypedDict, total=False):
    """Members of an IPC record. Those that are None are left out."""

    model: str
    payload: Optional[Mapping[str, Any]]
    input_hash: Optional[str]
    payload_schema: Optional[str]
    system_prompt: Optional[str]
    system_prompt_hash: Optional[str]
    output: Optional[str]
    output_hash: Optional[str]
    temperature: Optional[float]
    max_tokens: Optional[int]
    seed: Optional[int]
    environment: Optional[Environment]
    usage: Optional[Mapping[str, Any]]
    run_id: Optional[str]
    timestamp: Optional[str]
    labels: Optional[Mapping[str, str]]


class _Check(TypedDict):
    result: Literal["match", "mismatch", "computed", "claimed"]


class Check(_Check, total=False):
    claimed: str
    computed: str


class Inclusion(TypedDict):
    leaf_index: int
    tree_size: int
    hashes: list[str]


class _Receipt(TypedDict):
    ledger: str
    seq: int
    kind: str
    time: str
    event_hash: str
    hashes: dict[str, Optional[str]]
    checks: dict[str, Check]


class Receipt(_Receipt, total=False):
    """A receipt. Those of /batch are minimal unless verifier keys are given: they lack event, inclusion, and checkpoint."""

    prev_event_hash: str
    leaf_hash: str
    event: dict[str, Any]
    inclusion: Inclusion
    checkpoint: str
    replayed: bool
    incomplete: list[str]
    shape: str
    failure_stage: Optional[str]
    drift: dict[str, Any]  # this and the following only with derive=True
    divergence: dict[str, Any]
    category: str
    validated: bool
    conflicts: list[Any]
    path_id: str
    unregistered_sources: list[str]


class Difference(TypedDict):
    variable: str
    a: Any
    b: Any


class Generation(TypedDict):
    """An IPC record in answers about drift."""

    seq: int
    run_id: Optional[str]
    time: str
    ipc_id: Optional[str]
    output_hash: Optional[str]


class Comparison(TypedDict):
    """What caused the change from record a to record b."""

    as_of: int
    a: dict[str, Any]
    b: dict[str, Any]
    cause: str
    output_changed: bool
    differences: list[Difference]
    says: str


class EffectPair(TypedDict):
    seq: int
    a: Generation
    b: Generation
    output_changed: bool


class Effects(TypedDict):
    """One page of the pairs of runs that differ in one variable only, and the totals of all pairs."""

    as_of: int
    variable: str
    pairs: int
    changed: int
    unchanged: int
    rows: list[EffectPair]


class TimelineRow(TypedDict):
    seq: int
    run_id: Optional[str]
    time: str
    ipc_id: Optional[str]
    output_hash: Optional[str]
    state: str
    against: Optional[int]
    cause: Optional[str]
    output_changed: Optional[bool]
    differences: list[Difference]


class Group(TypedDict):
    """The runs that have a value in common."""

    seq: int
    by: str
    value: str
    runs: int
    distinct_outputs: int
    stability: float
    entropy_bits: float
    flips: int
    first_seq: int
    first_time: str
    last_seq: int
    last_time: str


class SearchHit(TypedDict):
    seq: int
    type: str
    value: str


class SearchAnswer(TypedDict):
    as_of: int
    complete: bool
    rows: list[SearchHit]


Row = dict[str, Any]
Query = Union[str, int, float, bool, None]
