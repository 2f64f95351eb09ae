package query

import (
	"regexp"
	"slices"
	"strings"

	"colophon/ledger/drift"
	"colophon/ledger/index/records"
	"colophon/ledger/query/prefix"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// form is the format of a value. name describes it in error messages.
type form struct {
	fits func(value string) bool
	name string
}

// check returns an error if a parameter does not have the form.
func (f *form) check(name, value string) error {
	if f.fits(value) {
		return nil
	}
	return invalid(name, "must be %s", f.name)
}

var (
	anyForm      = &form{func(string) bool { return true }, "text"}
	idForm       = &form{func(value string) bool { return value != "" }, "text, not empty"}
	seqForm      = &form{func(value string) bool { _, err := ParseCount("", value); return err == nil }, "a number from 0 to 2^64-1 in plain decimal"}
	flagForm     = &form{regexp.MustCompile(`^(mismatch|inconsistent|unregistered_source|other_base)$`).MatchString, `"mismatch", "inconsistent", "unregistered_source", or "other_base"`}
	ruleForm     = choiceForm(rules.VerdictRules[:]...)
	failedForm   = choiceForm("none", "retrieval", "context", "answer", drift.UnknownFailure)
	shapeForm    = choiceForm(rules.ShapeQuote, rules.ShapePointer, rules.ShapeReject, rules.ShapeUnrecognised)
	evidenceForm = &form{func(value string) bool { return rules.IsEvidenceID([]byte(value)) }, "E and 8 lower-case hexadecimal digits"}
	fieldForm    = &form{records.CheckedField, "a checked field, named as in the metric colophon_ledger_hash_checks_total, like output_hash, chunk_hash or stage:answer"}
	hashForm     = &form{regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString, "8 to 64 lower-case hexadecimal digits"}
	chunkForm    = &form{regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString, `8 to 64 lower-case hexadecimal digits, with or without "sha256:" before them`}
	pathForm     = &form{regexp.MustCompile(`^([0-9a-f]{8})+$`).MatchString, "8 lower-case hexadecimal digits, or 16 or more after a collision"}
	printForm    = &form{func(value string) bool { return rules.IsFingerprint([]byte(value)) }, "8 lower-case hexadecimal digits, or up to 64 of another hash_version"}
	partForm     = &form{func(value string) bool { return slices.Contains(fields.IPCParts[:], value) }, "one of " + strings.Join(fields.IPCParts[:], ", ")}
)

// choiceForm is the format of a value with known texts.
func choiceForm(known ...string) *form {
	return &form{func(value string) bool { return slices.Contains(known, value) }, "one of " + strings.Join(known, ", ")}
}

// valueForms maps the names of values by which records are found to their formats. Names that
// begin with label: or stage: are not in it.
var valueForms = map[string]*form{
	"run_id": idForm, "source_id": idForm, "producer": idForm,
	"subject": anyForm, "project": anyForm, "model": anyForm,
	records.RecordSeq: seqForm, records.Topic: idForm,
	"failure_stage": failedForm, "shape": shapeForm, "audit_mode": anyForm, "verifier_method": anyForm,
	prefix.DocumentRoot: hashForm, "evidence_id": evidenceForm,
	"flag": flagForm, "incomplete": partForm, "mismatch": fieldForm, "inconsistent": ruleForm,
	prefix.ChunkHash: chunkForm, "path_id": pathForm, "content_fingerprint": printForm, "raw_content_fingerprint": printForm,
	"input": hashForm, "input_hash": hashForm, "system_prompt_hash": hashForm, "output_hash": hashForm, "ipc_id": hashForm, "ipc_id_advanced": hashForm,
	"root": hashForm, "question_hash": hashForm, "preflight_hash": hashForm, "context_root": hashForm, "evidence_map_root": hashForm,
	"conversation_hash": hashForm, "governance_policy_hash": hashForm, "verifier_policy_hash": hashForm, "source_root": hashForm,
	"model_profile_hash": hashForm, "cache_key": hashForm,
}

// valueForm returns the format of values with that name, or nil if it does not find records.
func valueForm(name string) *form {
	switch {
	case strings.HasPrefix(name, "label:"):
		return anyForm
	case strings.HasPrefix(name, prefix.StagePrefix):
		return hashForm
	}
	return valueForms[name]
}
