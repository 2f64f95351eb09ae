package event

import (
	"slices"

	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// NamedHash is either a stage of a run-DAG with its hash, or a dimension of a cache key with its
// value.
type NamedHash = fields.NamedHash

// DAG holds the fields of a run_dag event (spec: Run-DAG).
type DAG = fields.RunDAG

// DAG reads the fields of a run_dag event.
func (e *Event) DAG() DAG {
	var r DAG
	for name, value := range e.Record.Members() {
		switch string(name.Text()) {
		case "hashes":
			for name, hash := range value.Members() {
				if place := r.HashField(string(name.Text())); place != nil {
					*place = text(hash)
				}
			}
		case "nodes":
			for node := range value.Elements() {
				r.Stages = append(r.Stages, NamedHash{Name: text(node.Member("stage")), Hash: text(node.Member("hash"))})
			}
		case "cache_dimensions":
			for dimension, v := range value.Members() {
				if slices.Contains(rules.CacheDimensions[:], string(dimension.Text())) {
					r.CacheDimensions = append(r.CacheDimensions, NamedHash{Name: dimension.Text(), Hash: text(v)})
				}
			}
		case "document_roots":
			r.DocumentRoots = textsOf(value)
		case "evidence_ids":
			r.EvidenceIDs = textsOf(value)
		case "shape":
			r.Shape = text(value)
		case "failure_stage":
			r.FailureStage = text(value)
		case "preflight":
			r.PreflightStatus = text(value)
		case "preflight_generation":
			r.PreflightGeneration = text(value)
		case "audit_mode":
			r.AuditMode = text(value)
		case "verifier_method":
			r.VerifierMethod = text(value)
		case "lookup_path":
			r.LookupPath = text(value)
		case "answer_mode":
			r.AnswerMode = text(value)
		case "question_mode":
			r.QuestionMode = text(value)
		case "n_quotes":
			r.QuoteCount = raw(value)
		case "n_verified":
			r.VerifiedQuoteCount = raw(value)
		case "n_sources":
			r.SourceCount = raw(value)
		}
	}
	return r
}

// textsOf returns the elements of a JSON array of strings. It returns nil for any other kind of
// value.
func textsOf(list pyjson.Value) (texts [][]byte) {
	for e := range list.Elements() {
		texts = append(texts, text(e))
	}
	return texts
}
