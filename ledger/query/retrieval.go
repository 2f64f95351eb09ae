package query

import (
	"colophon/client/wire"
	"colophon/ledger/index/citations"
	"colophon/ledger/record/rules"
)

// Questions about one citation set, which the path element seq names. They have no path: the
// answer of Document is not only JSON, and the request of Retrieval has a body.
var (
	Document  = Question{Seqs: []string{"seq"}}                // spec: Citations document
	Retrieval = Question{Takes: Proofs, Seqs: []string{"seq"}} // spec: Pinned retrieval
)

// CitationSet returns the citation set that the path element seq names.
func CitationSet(v *View, elements Parameters) (citations.Set, error) {
	seq, _, err := elements.Count("seq")
	if err != nil {
		return citations.Set{}, err
	}
	set, err := citations.Get(v.Context, v.View, seq)
	return set, notFound(err, "no citation set has that seq")
}

// Retrieve selects at most topK of the chunks, preferring those that the citation set cites.
// It lists the cited chunks that it did not select: in Cut those that are in chunks, and in
// Missing the others. Before it builds the answer, it calls hold with the length of the
// selected chunks in bytes, and returns the error of hold. The answer can be many times longer
// than the request, because many chunks can share one source id.
func Retrieve(v *View, set *citations.Set, chunks []rules.Chunk, topK int, hold func(size int64) error) (*wire.PinnedRetrieval, error) {
	held, named := make(map[string]bool), make(map[string]bool)
	for _, c := range chunks {
		held[string(c.Hash)] = true
	}
	var required [][]byte
	for _, c := range set.Citations {
		required = append(required, []byte(c.ChunkHash))
	}
	chosen := rules.PinnedRetrieval(chunks, required, topK)
	size := int64(0)
	for _, c := range chosen {
		size += int64(len(c.Hash) + len(c.Text) + len(c.SourceID))
	}
	if err := hold(size); err != nil {
		return nil, err
	}
	answer := &wire.PinnedRetrieval{Row: v.row(set.Seq), Chunks: []wire.PinnedChunk{}, Missing: []string{}, Cut: []string{}}
	for _, c := range chosen {
		named[string(c.Hash)] = true
		answer.Chunks = append(answer.Chunks, wire.PinnedChunk{Hash: string(c.Hash), Text: string(c.Text), SourceID: string(c.SourceID)})
	}
	for _, hash := range required {
		h := string(hash)
		switch {
		case named[h]:
		case held[h]:
			answer.Cut = append(answer.Cut, h)
		default:
			answer.Missing = append(answer.Missing, h)
		}
		named[h] = true // list each hash once
	}
	var err error
	answer.View, err = v.tree()
	return answer, err
}
