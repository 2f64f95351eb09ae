package record

import (
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// node is one stage of a run-DAG; hash is 64 hexadecimal digits.
type node struct {
	stage   string
	hash    []byte
	adopted bool // a claim: there was no content to recompute it from
}

// stageNames are the names of the stages of a run.
func stageNames(nodes []node) []string {
	stages := make([]string, len(nodes))
	for i, n := range nodes {
		stages[i] = n.stage
	}
	return stages
}

// runRoot is the root over the hashes of the stages of a run.
func runRoot(nodes []node) Hash {
	hashes := make([][]byte, len(nodes))
	for i, n := range nodes {
		hashes[i] = n.hash
	}
	return rules.RunRoot(hashes)
}

// preflightHash is the hash of a preflight payload; nil when it is not given.
func (r *Record) preflightHash(o object) []byte {
	v := o.typed("preflight_payload", pyjson.Object, "an object")
	if !v.Given() {
		return nil
	}
	p := o.d.object(v, o.at("preflight_payload"), append([]string{"stage", "node_version"}, rules.Clauses[:]...)...)
	p.constant("stage", rules.Preflight)
	p.constant("node_version", rules.PreflightVersion)
	return r.hex(rules.PreflightHash(p.v))
}

// constant refuses any other value of a member than the one; it may be absent.
func (o object) constant(name, value string) {
	if text, given := o.strict(name); given && string(text) != value {
		o.d.invalid(o.at(name), "must be %q", value)
	}
}
