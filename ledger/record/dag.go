package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"colophon/ledger/record/pyjson"
)

// node is one stage of a run-DAG; hash is 64 hexadecimal digits.
type node struct {
	stage   string
	hash    []byte
	adopted bool // a claim: there was no content to recompute it from
}

// Stages of the known shapes, without preflight (1.4).
var (
	quoteStages   = []string{"question", "retrieval", "context", "prompt", "answer", "verify", "final_label"}
	pointerStages = []string{"question", "retrieval", "evidence_map", "prompt", "raw_answer",
		"parsed_claim_lattice", "verify", "render", "final_label"}
	rejectStages = []string{"question", preflightStage, "final_label"}
)

const preflightStage = "preflight"

func knownStage(stage string) bool {
	return stage == preflightStage || slices.Contains(quoteStages, stage) || slices.Contains(pointerStages, stage)
}

// shapeOf names the shape of a list of stages.
func shapeOf(nodes []node) string {
	stages := make([]string, len(nodes))
	for i, n := range nodes {
		stages[i] = n.stage
	}
	if slices.Equal(stages, rejectStages) {
		return "reject"
	}
	if len(stages) > 1 && stages[1] == preflightStage {
		stages = slices.Delete(stages, 1, 2)
	}
	switch {
	case slices.Equal(stages, quoteStages):
		return "quote"
	case slices.Equal(stages, pointerStages):
		return "pointer"
	}
	return "unrecognised"
}

// merkleRoot is the root of the run's own tree over 32-byte or other leaves
// (1.4): an odd last element is paired with itself. It is not the tree of
// RFC 6962. There is at least one leaf.
func merkleRoot(leaves [][]byte) Hash {
	level := make([]Hash, len(leaves))
	for i, leaf := range leaves {
		level[i] = sha256.Sum256(append([]byte{0x00}, leaf...))
	}
	for len(level) > 1 {
		for i := 0; i < len(level); i += 2 {
			level[i/2] = pair(level[i], level[min(i+1, len(level)-1)])
		}
		level = level[:(len(level)+1)/2]
	}
	return level[0]
}

func pair(left, right Hash) Hash {
	var b [1 + 2*sha256.Size]byte
	b[0] = 0x03
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}

// dagRoot is the root over the node hashes in stage order.
func dagRoot(nodes []node) Hash {
	leaves := make([][]byte, len(nodes))
	for i, n := range nodes {
		leaves[i] = rawHash(n.hash)
	}
	return merkleRoot(leaves)
}

// rawHash is 64 hexadecimal digits, checked before, as 32 bytes.
func rawHash(digits []byte) []byte {
	raw := make([]byte, sha256.Size)
	if _, err := hex.Decode(raw, digits); err != nil {
		panic("record: unchecked hash: " + err.Error())
	}
	return raw
}

// contextRoot is the root over the distinct document roots, sorted.
func contextRoot(roots [][]byte) Hash {
	leaves := make([][]byte, len(roots))
	for i, root := range roots {
		leaves[i] = rawHash(root)
	}
	slices.SortFunc(leaves, bytes.Compare)
	return merkleRoot(slices.CompactFunc(leaves, bytes.Equal))
}

// evidenceMapRoot is the root over the sorted evidence ids, as text.
func evidenceMapRoot(ids [][]byte) Hash {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, bytes.Compare)
	return merkleRoot(ids)
}

// evidenceID is "E" and the first eight digits of SHA-256 of "root:start:end".
func evidenceID(chunkRoot, start, end []byte) []byte {
	sum := sha256.Sum256(bytes.Join([][]byte{chunkRoot, start, end}, []byte(":")))
	return hex.AppendEncode([]byte("E"), sum[:4])
}

// failureStage says where a run failed (1.4); nil means it did not.
func failureStage(auditMode []byte, sources int, quotes []byte) []byte {
	switch {
	case string(auditMode) == "STRICT":
		return nil
	case sources == 0:
		return []byte("retrieval")
	case string(quotes) == "0":
		return []byte("context")
	}
	return []byte("answer")
}

// clauses are the members of a preflight payload beside stage and node_version.
var clauses = []string{"classifier", "answer_contract", "prompt_contract", "evidence_contract", "policy_refs", "question_state"}

const preflightVersion = "preflight-node-v1"

// preflightHash is the JSON hash of a preflight payload, its absent, null and
// empty clauses made {} (1.4). nil when v is Absent.
func (r *Record) preflightHash(o object) []byte {
	v := o.typed("preflight_payload", pyjson.Object, "an object")
	if !v.Given() {
		return nil
	}
	p := o.d.object(v, o.at("preflight_payload"), append([]string{"stage", "node_version"}, clauses...)...)
	p.constant("stage", preflightStage)
	p.constant("node_version", preflightVersion)
	w := &builder{b: r.scratch[:0]}
	w.open()
	w.text("stage", []byte(preflightStage))
	w.text("node_version", []byte(preflightVersion))
	for _, clause := range clauses {
		if c := p.member(clause); c.Given() && !isEmpty(c) {
			w.value(clause, c)
		} else {
			w.raw(clause, []byte("{}"))
		}
	}
	w.close()
	r.scratch = w.b
	return r.hex(sha256.Sum256(w.b))
}

// constant refuses any other value of a member than the one; it may be absent.
func (o object) constant(name, value string) {
	if text, given := o.strict(name); given && string(text) != value {
		o.d.invalid(o.at(name), "must be %q", value)
	}
}

// isEmpty is what CPython takes for false among containers and strings.
func isEmpty(v pyjson.Value) bool {
	switch v.Kind() {
	case pyjson.Object, pyjson.Array:
		return v.Len() == 0
	case pyjson.String:
		return len(v.Text()) == 0
	}
	return false
}
