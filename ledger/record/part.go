package record

import (
	"crypto/sha256"
	"encoding/hex"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// StageHashes are the hashes that a text may have as the stage of that name of a
// run-DAG (spec: Stage hashes), that of its bytes first. For a question follow those of its
// canonical form in the mode, or in both where mode is empty; for a stage that is
// made of JSON those of what the text says, where it is JSON.
func StageHashes(stage, mode string, text []byte) []Hash {
	hashes := []Hash{sha256.Sum256(text)}
	switch stage {
	case "question":
		for _, m := range [...]string{rules.ModeStrict, rules.ModeEquivalence} {
			if mode == "" || mode == m {
				hashes = append(hashes, rules.QuestionHash(text, m == rules.ModeStrict))
			}
		}
	case rules.Preflight, "retrieval", "context", "evidence_map", "prompt", "parsed_claim_lattice", "verify", "final_label":
		var document pyjson.Document
		if document.Parse(text) == nil {
			hashes = append(hashes, new(Record).jsonHash(document.Root()))
			hashes = append(hashes, derivedStageHashes(stage, text)...)
		}
	}
	return hashes
}

// derivedStageHashes is the hash of a stage that is not the hash of its JSON, but is
// made from it; empty where the JSON is not what the stage is made from.
func derivedStageHashes(stage string, text []byte) []Hash {
	member, compute := "", (func(*runDAG, object) []byte)(nil)
	switch stage {
	case rules.Preflight:
		member, compute = "preflight_payload", func(g *runDAG, o object) []byte { return g.r.preflightHash(o) }
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
	d := &decoder{limits: NoLimits()}
	digits := compute(&runDAG{r: new(Record)}, d.object(document.Root(), "", member))
	if digits == nil || d.failed() {
		return nil
	}
	var sum Hash
	_, _ = hex.Decode(sum[:], digits) // which compute has encoded
	return []Hash{sum}
}
