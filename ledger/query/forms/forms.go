// Package forms defines the formats of the values by which records are found.
package forms

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"colophon/ledger/drift"
	"colophon/ledger/index/records"
	"colophon/ledger/query/prefix"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// Format describes which values a parameter accepts.
type Format struct {
	Accepts     func(value string) bool // reports whether a value has the format
	Description string                  // completes the error message "must be …"
}

// The formats that other packages use.
var (
	// Any accepts every text, including the empty text.
	Any = &Format{func(string) bool { return true }, "text"}
	// Hash accepts a complete SHA-256. Its description also covers prefixes, which package query
	// pads to full length before the check.
	Hash = &Format{regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString, "8 to 64 lower-case hexadecimal digits"}
	// ChunkHash accepts a complete chunk hash. As for Hash, its description also covers prefixes.
	ChunkHash = &Format{regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString, `8 to 64 lower-case hexadecimal digits, with or without "sha256:" before them`}
	// Seq accepts every possible seq of an event.
	Seq = &Format{isCount, "a number from 0 to 2^64-1 in plain decimal"}
)

// isCount reports whether a value is a number from 0 to 2^64-1 without leading zeros.
func isCount(value string) bool {
	n, err := strconv.ParseUint(value, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == value
}

var (
	idForm       = &Format{func(value string) bool { return value != "" }, "non-empty text"}
	flagForm     = &Format{regexp.MustCompile(`^(mismatch|inconsistent|unregistered_source|other_base)$`).MatchString, `"mismatch", "inconsistent", "unregistered_source", or "other_base"`}
	ruleForm     = choiceForm(rules.VerdictRules[:]...)
	failedForm   = choiceForm("none", "retrieval", "context", "answer", drift.UnknownFailureStage)
	shapeForm    = choiceForm(rules.ShapeQuote, rules.ShapePointer, rules.ShapeReject, rules.ShapeUnrecognised)
	evidenceForm = &Format{func(value string) bool { return rules.IsEvidenceID([]byte(value)) }, "E followed by 8 lower-case hexadecimal digits"}
	fieldForm    = &Format{records.IsCheckedField, "a checked field, named as in the metric colophon_ledger_hash_checks_total, such as output_hash, chunk_hash, or stage:answer"}
	pathForm     = &Format{regexp.MustCompile(`^([0-9a-f]{8})+$`).MatchString, "8 lower-case hexadecimal digits, or 16 or more after a collision"}
	printForm    = &Format{func(value string) bool { return rules.IsFingerprint([]byte(value)) }, "8 lower-case hexadecimal digits, or up to 64 digits for another hash_version"}
	partForm     = &Format{func(value string) bool { return slices.Contains(fields.IPCParts[:], value) }, "one of " + strings.Join(fields.IPCParts[:], ", ")}
)

// choiceForm returns the format of a value that must be one of the known texts.
func choiceForm(known ...string) *Format {
	return &Format{func(value string) bool { return slices.Contains(known, value) }, "one of " + strings.Join(known, ", ")}
}

// FormatsByName contains the format of each value by which records can be found, indexed by the
// name of the value. It omits names that begin with label: or stage:.
var FormatsByName = map[string]*Format{
	"run_id": idForm, "source_id": idForm, "producer": idForm,
	"subject": Any, "project": Any, "model": Any, "ollama_build_hash": Any,
	records.NameRecordSeq: Seq, records.NameTopic: idForm,
	"failure_stage": failedForm, "shape": shapeForm, "audit_mode": Any, "verifier_method": Any,
	prefix.DocumentRootName: Hash, "evidence_id": evidenceForm,
	"flag": flagForm, "incomplete": partForm, "mismatch": fieldForm, "inconsistent": ruleForm,
	prefix.ChunkHashName: ChunkHash, "path_id": pathForm, "content_fingerprint": printForm, "raw_content_fingerprint": printForm,
	"input": Hash, "input_hash": Hash, "system_prompt_hash": Hash, "output_hash": Hash, "ipc_id": Hash, "ipc_id_advanced": Hash,
	"root": Hash, "question_hash": Hash, "preflight_hash": Hash, "context_root": Hash, "evidence_map_root": Hash,
	"conversation_hash": Hash, "governance_policy_hash": Hash, "verifier_policy_hash": Hash, "source_root": Hash,
	"model_profile_hash": Hash, "cache_key": Hash,
}

// ForName returns the format of the values that have the given name, or nil if records cannot be
// found by that name.
func ForName(name string) *Format {
	switch {
	case strings.HasPrefix(name, "label:"):
		return Any
	case strings.HasPrefix(name, prefix.StageNamePrefix):
		return Hash
	}
	return FormatsByName[name]
}
