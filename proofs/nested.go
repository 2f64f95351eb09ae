package proofs

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// NestedProofFormat is the name and version of the format of nested proofs.
const NestedProofFormat = "colophon-nested-proof@1"

// NestedProof proves one part of a record: a stage of a run-DAG or a citation in a citation set. A
// stage is proved by its path to the run's root. The receipt proves that the record is in the
// checkpoint's tree. The proof reveals the record's event, which contains none of the content, and
// at most the text of this stage or citation (spec: Nested proofs).
type NestedProof struct {
	Receipt  *Receipt        // must include its Proof
	Stage    *NestedStage    // nil if Citation is set
	Citation *NestedCitation // nil if Stage is set

	// Text is the WTF-8 text from which the hash of the stage or citation is computed. It is nil if
	// the proof does not include the text. Verify does not check the text: the caller must hash it
	// according to the rules (spec: Nested proofs).
	Text []byte
}

// NestedStage is a stage and its path in the tree of the run (spec: Run tree).
type NestedStage struct {
	Name  string     // name of the stage in the event
	Index uint64     // position among the run's stages
	Hash  Hash       // recorded hash of the stage
	Root  Hash       // root of the run's tree
	Path  []PathStep // from the leaf to the root; empty if the run has only one stage
}

// PathStep is one step of a path in the tree of a run.
type PathStep = rules.MerkleStep

// NestedCitation is one citation of a citation set.
type NestedCitation struct {
	Index     uint64 // position in the set
	ChunkHash string // includes the prefix "sha256:" (spec: Citation hashes)
}

// maxStagePath is the maximum length of a stage's path. The event of a run with a longer path would
// not fit in an entry.
const maxStagePath = 16

// AppendJSON appends the proof as one JSON object in valid UTF-8. It returns ErrMalformed if
// n.Text is not WTF-8.
func (n *NestedProof) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"format":"`+NestedProofFormat+`",`...)
	if n.Stage != nil {
		dst = n.Stage.appendJSON(append(dst, `"stage":`...))
	} else {
		dst = strconv.AppendUint(append(dst, `"citation":{"index":`...), n.Citation.Index, 10)
		dst = pyjson.AppendString(append(dst, `,"chunk_hash":`...), []byte(n.Citation.ChunkHash))
		dst = append(dst, '}')
	}
	if n.Text != nil {
		var ok bool
		if dst, ok = pyjson.AppendUTF8String(append(dst, `,"text":`...), n.Text); !ok {
			return nil, fmt.Errorf("%w: the text is not valid WTF-8", ErrMalformed)
		}
	}
	return append(n.Receipt.AppendJSON(append(dst, `,"receipt":`...)), '}'), nil
}

func (s *NestedStage) appendJSON(dst []byte) []byte {
	dst = pyjson.AppendString(append(dst, `{"name":`...), []byte(s.Name))
	dst = strconv.AppendUint(append(dst, `,"index":`...), s.Index, 10)
	dst = appendHash(append(dst, `,"hash":`...), s.Hash)
	dst = appendHash(append(dst, `,"root":`...), s.Root)
	dst = append(dst, `,"path":[`...)
	for i, step := range s.Path {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHash(append(dst, `{"sibling":`...), step.Sibling)
		dst = append(strconv.AppendBool(append(dst, `,"is_left":`...), step.SiblingIsLeft), '}')
	}
	return append(dst, `]}`...)
}

// IsNestedProof reports whether text is JSON in any version of the nested proof format.
func IsNestedProof(text []byte) bool {
	var doc pyjson.Document
	return doc.ParseLimited(text, maxValues) == nil && bytes.HasPrefix(doc.Root().Member("format").Text(), []byte("colophon-nested-proof@"))
}

// ParseNestedProof parses a nested proof strictly. It returns ErrMalformed if a member is missing,
// unknown, repeated, or of the wrong type, or if the proof has more JSON values than ParseReceipt
// accepts.
func ParseNestedProof(text []byte) (*NestedProof, error) {
	var doc pyjson.Document
	if err := doc.ParseLimited(text, maxValues); err != nil {
		return nil, fmt.Errorf("%w: parsing the nested proof: %w", ErrMalformed, err)
	}
	var in reader
	root := in.allowOnly(doc.Root(), "nested proof", "format", "stage", "citation", "text", "receipt")
	if format := in.text(root.Member("format"), "format"); in.err == nil && format != NestedProofFormat {
		in.fail(`the member "format" is %.100q, but must be %q`, format, NestedProofFormat)
	}
	n := new(NestedProof)
	stage, citation := root.Member("stage"), root.Member("citation")
	switch {
	case (stage.Kind() == pyjson.Absent) == (citation.Kind() == pyjson.Absent):
		in.fail(`a nested proof must have either "stage" or "citation", but not both`)
	case stage.Kind() != pyjson.Absent:
		n.Stage = in.stage(stage)
	default:
		in.allowOnly(citation, "citation", "index", "chunk_hash")
		n.Citation = &NestedCitation{
			Index:     in.count(citation.Member("index"), "citation index"),
			ChunkHash: in.text(citation.Member("chunk_hash"), "citation chunk_hash"),
		}
	}
	if v := root.Member("text"); v.Kind() != pyjson.Absent {
		n.Text = append([]byte{}, in.text(v, "text")...)
	}
	if in.err != nil {
		return nil, in.err
	}
	var err error
	n.Receipt, err = ParseReceipt(root.Member("receipt").Raw())
	return n, err
}

func (r *reader) stage(v pyjson.Value) *NestedStage {
	r.allowOnly(v, "stage", "name", "index", "hash", "root", "path")
	s := &NestedStage{
		Name:  r.text(v.Member("name"), "stage name"),
		Index: r.count(v.Member("index"), "stage index"),
		Hash:  r.hash(v.Member("hash"), "stage hash"),
		Root:  r.hash(v.Member("root"), "stage root"),
	}
	path := v.Member("path")
	if path.Kind() != pyjson.Array || path.Len() > maxStagePath {
		r.fail("the stage path is not an array of at most %d steps", maxStagePath)
		return s
	}
	for step := range path.Elements() {
		r.allowOnly(step, "a step of the stage path", "sibling", "is_left")
		left := step.Member("is_left").Kind()
		if left != pyjson.True && left != pyjson.False {
			r.fail(`the member "is_left" of a step of the stage path must be true or false`)
		}
		s.Path = append(s.Path, PathStep{Sibling: r.hash(step.Member("sibling"), "a sibling in the stage path"), SiblingIsLeft: left == pyjson.True})
	}
	return s
}

// Verify verifies everything except the text. It first verifies the receipt and returns any error
// from Receipt.Verify. It then verifies that the event contains the stage or citation at the given
// index with the given hash (ErrFieldMismatch), and that the path leads from the stage to the run's root in
// the event (ErrStagePath).
func (n *NestedProof) Verify(verifiers ...*Verifier) error {
	if err := n.Receipt.Verify(verifiers...); err != nil {
		return err
	}
	var doc pyjson.Document
	if err := doc.Parse(n.Receipt.Proof.Event); err != nil {
		return fmt.Errorf("%w: parsing the event: %w", ErrMalformed, err)
	}
	members := doc.Root().Member("record")
	if n.Citation != nil {
		return n.Citation.verify(n.Receipt.Kind, members)
	}
	return n.Stage.verify(n.Receipt.Kind, members)
}

func (c *NestedCitation) verify(kind string, members pyjson.Value) error {
	if kind != "citation_set" {
		return fmt.Errorf("%w: the proof is for a citation, but the event's kind is %.100q", ErrFieldMismatch, kind)
	}
	list := slices.Collect(members.Member("citations").Elements())
	if c.Index >= uint64(len(list)) {
		return fmt.Errorf("%w: the proof is for citation %d, but the event has %d citations", ErrFieldMismatch, c.Index, len(list))
	}
	if hash := list[c.Index].Member("chunk_hash").Text(); string(hash) != c.ChunkHash {
		return fmt.Errorf("%w: the chunk_hash of citation %d is %.100q in the proof, but %.100q in the event", ErrFieldMismatch, c.Index, c.ChunkHash, hash)
	}
	return nil
}

func (s *NestedStage) verify(kind string, members pyjson.Value) error {
	if kind != "run_dag" {
		return fmt.Errorf("%w: the proof is for a stage, but the event's kind is %.100q", ErrFieldMismatch, kind)
	}
	nodes := slices.Collect(members.Member("nodes").Elements())
	if s.Index >= uint64(len(nodes)) {
		return fmt.Errorf("%w: the proof is for stage %d, but the event has %d stages", ErrFieldMismatch, s.Index, len(nodes))
	}
	node := nodes[s.Index]
	if name := node.Member("stage").Text(); string(name) != s.Name {
		return fmt.Errorf("%w: the name of stage %d is %.100q in the proof, but %.100q in the event", ErrFieldMismatch, s.Index, s.Name, name)
	}
	if hash, err := ParseHash(string(node.Member("hash").Text())); err != nil || hash != s.Hash {
		return fmt.Errorf("%w: the hash of stage %d is %x in the proof, but %.100q in the event", ErrFieldMismatch, s.Index, s.Hash, node.Member("hash").Text())
	}
	if root, err := ParseHash(string(members.Member("hashes").Member("root").Text())); err != nil || root != s.Root {
		return fmt.Errorf("%w: the root of the run is %x in the proof, but %.100q in the event", ErrFieldMismatch, s.Root, members.Member("hashes").Member("root").Text())
	}
	if err := rules.VerifyMerklePath(s.Hash, int(s.Index), len(nodes), s.Path, s.Root); err != nil {
		return fmt.Errorf("%w: %w", ErrStagePath, err)
	}
	return nil
}
