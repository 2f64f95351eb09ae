package record

import (
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
	"colophon/ledger/record/strict"
)

// StageHashes returns the hashes that the given stage of a run-DAG can have if its content is text
// (spec: Stage hashes). The first is the hash of the text's bytes. For a question, the next is the
// hash of its canonical form in the given mode. If mode is empty, the hashes for both modes follow
// instead. If the stage is computed from JSON and the text is JSON, the hashes of that JSON follow.
func StageHashes(stage, mode string, text []byte) []Hash {
	hashes := []Hash{sha256.Sum256(text)}
	switch stage {
	case "question":
		for _, m := range [...]string{rules.QuestionModeStrict, rules.QuestionModeEquivalence} {
			if mode == "" || mode == m {
				hashes = append(hashes, rules.QuestionHash(text, m == rules.QuestionModeStrict))
			}
		}
	case rules.PreflightStage, "retrieval", "context", "evidence_map", "prompt", "parsed_claim_lattice", "verify", "final_label":
		var document pyjson.Document
		if document.Parse(text) == nil {
			hashes = append(hashes, new(Record).jsonHash(document.Root()))
			hashes = append(hashes, derivedStageHashes(stage, text)...)
		}
	}
	return hashes
}

// derivedStageHashes returns the hash of a stage whose hash is computed from the values in its
// JSON, rather than from the JSON as a whole. It returns nil for any other stage, or if the text is
// not valid for the stage.
func derivedStageHashes(stage string, text []byte) []Hash {
	member, compute := "", (func(*runDAG, strict.Object) []byte)(nil)
	switch stage {
	case rules.PreflightStage:
		member, compute = "preflight_payload", func(g *runDAG, o strict.Object) []byte { return g.r.preflightHash(o) }
	case "context":
		member, compute = "source_roots", (*runDAG).contextRoot
	case "evidence_map":
		member, compute = "evidence", (*runDAG).evidenceMapRoot
	default:
		return nil
	}
	var document pyjson.Document
	if document.Parse(append(append([]byte(`{"`+member+`":`), text...), '}')) != nil {
		return nil
	}
	d := new(strict.Decoder)
	digits := compute(&runDAG{r: new(Record)}, d.Object(document.Root(), "", member))
	if digits == nil || d.HasProblems() {
		return nil
	}
	var sum Hash
	_, _ = hex.Decode(sum[:], digits) // cannot fail, because compute returns hexadecimal digits
	return []Hash{sum}
}
