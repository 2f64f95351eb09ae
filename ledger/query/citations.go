package query

import (
	"encoding/json"

	"colophon/client/wire"
	"colophon/ledger/index/citations"
	"colophon/ledger/query/forms"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/rules"
)

// citationQuestions lists the questions about citation sets (spec: Citation drift; Citation conflicts; Stale
// citations). None of them accepts the parameter state, because citation sets have no state.
var citationQuestions = []Question{
	{Path: "/citation-sets/drift", SharedParameters: PageParameters | ProofsParameter, ParameterNames: []string{"subject"}, ParseParameters: askWith(required("subject", "the subject of citation sets"), CitationDrift)},
	{Path: "/citation-sets/conflicts", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWithoutParameters(ChunkConflicts)},
	{Path: "/citation-sets/stale", SharedParameters: PageParameters | ProofsParameter, ParameterNames: []string{"source_id"}, ParseParameters: askWith(parseStale, StaleCitations)},
	{Path: "/citation-sets/by-chunk/:hash", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(parseChunk, CitationsOfChunk)},
	{Path: "/citation-sets/by-source/:source_id", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWith(parseSource, CitationsOfSource)},
}

// required returns a parse function for a question that has exactly one parameter, which is required. what describes
// the parameter in the error message.
func required(name, what string) func(Parameters) (string, error) {
	return func(p Parameters) (string, error) {
		if !p.Has(name) {
			return "", invalid(name, "is required: %s", what)
		}
		return p[name], nil
	}
}

// CitationDrift lists the citation sets of a subject in log order, each compared with the previous one.
func CitationDrift(v *View, subject string) (*wire.Page[wire.CitationDriftRow], error) {
	found, next, err := citations.ListDrift(v.Context, v.View, subject, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, citationDriftRow)
}

func citationDriftRow(v *View, d *citations.Drift) wire.CitationDriftRow {
	row := wire.CitationDriftRow{RowMembers: v.row(d.Seq), RunID: d.RunID, Time: timeOf(d.Time), PreviousSeq: optionalSeq(d.PreviousSeq),
		Added: orEmpty(d.Added), Removed: orEmpty(d.Removed), Kept: orEmpty(d.Kept)}
	if d.PreviousSeq > 0 { // the first set has no previous one
		row.Jaccard = &d.Jaccard
	}
	return row
}

// ChunkConflicts lists the chunks that are cited under several sources. The seq of a row is the seq of the citation
// set that first cited the chunk under a second source.
func ChunkConflicts(v *View) (*wire.Page[wire.ChunkConflict], error) {
	found, next, err := citations.ListConflicts(v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, conflictRow)
}

func conflictRow(v *View, c *citations.Conflict) wire.ChunkConflict {
	return wire.ChunkConflict{RowMembers: v.row(c.Seq), ChunkHash: c.ChunkHash, SourceCount: c.SourceCount, Sources: sourceUses(c.Sources)}
}

func sourceUses(found []citations.ChunkSource) []wire.SourceUse {
	uses := make([]wire.SourceUse, len(found))
	for i, s := range found {
		uses[i] = wire.SourceUse{SourceID: s.ID, Seq: s.Seq}
	}
	return uses
}

func parseStale(p Parameters) (string, error) { return p["source_id"], nil }

// StaleCitations lists the citations of chunks that have been superseded in the given source. If source is empty,
// it covers all sources.
func StaleCitations(v *View, source string) (*wire.Page[wire.StaleCitationRow], error) {
	list := func() ([]citations.StaleCitation, []byte, error) {
		return citations.ListStaleCitationsOfSource(v.Context, v.View, source, v.Page)
	}
	if source == "" {
		list = func() ([]citations.StaleCitation, []byte, error) {
			return citations.ListStaleCitations(v.Context, v.View, v.Page)
		}
	}
	found, next, err := list()
	if err != nil {
		return nil, err
	}
	return page(v, found, next, staleRow)
}

func staleRow(v *View, s *citations.StaleCitation) wire.StaleCitationRow {
	return wire.StaleCitationRow{RowMembers: v.row(s.Seq), RunID: s.RunID, Subject: s.Subject, SourceID: s.SourceID, ChunkHash: s.ChunkHash,
		SupersededBy: s.SupersededBy, Cause: s.SupersessionKind}
}

func parseChunk(p Parameters) (string, error) {
	return p["hash"], checkForm(forms.ChunkHash, "hash", p["hash"])
}

// CitationsOfChunk lists the citation sets that cite a chunk. Each row has only the citations of that chunk.
func CitationsOfChunk(v *View, hash string) (*wire.Page[wire.CitingSetRow], error) {
	found, next, err := citations.SetsCitingChunk(v.Context, v.View, hash, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, citedRow)
}

func parseSource(p Parameters) (string, error) {
	id := p["source_id"]
	if len(id) > fields.MaxSourceIDBytes {
		return "", invalid("source_id", "is %d bytes long, but at most %d are allowed", len(id), fields.MaxSourceIDBytes)
	}
	return id, nil
}

// CitationsOfSource lists the citation sets that cite a source. Each row has only the citations of that source.
func CitationsOfSource(v *View, id string) (*wire.Page[wire.CitingSetRow], error) {
	found, next, err := citations.SetsCitingSource(v.Context, v.View, id, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, citedRow)
}

func citedRow(v *View, s *citations.Set) wire.CitingSetRow {
	return wire.CitingSetRow{RowMembers: v.row(s.Seq), RunID: s.RunID, Subject: s.Subject, Time: timeOf(s.Time),
		Citations: rowsOf(v, s.Citations, func(_ *View, c *citations.Citation) wire.CitationRow {
			return wire.CitationRow{ChunkHash: c.ChunkHash, SourceID: c.SourceID, Weight: json.Number(c.Weight), Section: c.Section}
		})}
}

// sourceQuestions lists the questions about sources (spec: Unregistered sources).
var sourceQuestions = []Question{
	{Path: "/sources", SharedParameters: PageParameters | ProofsParameter, ParseParameters: askWithoutParameters(Sources)},
	{Path: "/sources/:source_id", SharedParameters: ProofsParameter, ParseParameters: askWith(parseSource, SourceByID)},
}

// Sources lists the sources that are or were registered.
func Sources(v *View) (*wire.Page[wire.Source], error) {
	found, next, err := citations.ListSources(v.Context, v.View, v.Page)
	if err != nil {
		return nil, err
	}
	return page(v, found, next, sourceRow)
}

func sourceRow(v *View, s *citations.SourceDetail) wire.Source {
	row := wire.Source{RowMembers: v.row(s.Seq), SourceID: s.ID, Registered: s.Registered, Time: timeOf(s.Time), Title: s.Title, Reason: s.Reason}
	if s.HasChunkList {
		row.ChunkCount = &s.ChunkCount
	}
	return row
}

// SourceByID returns one source with the chunks in its registration.
func SourceByID(v *View, id string) (*wire.SourceAnswer, error) {
	found, err := citations.SourceDetailByID(v.Context, v.View, id)
	if err != nil {
		return nil, notFound(err, "no source with the given id was ever registered")
	}
	answer := &wire.SourceAnswer{Source: sourceRow(v, &found)}
	if found.HasChunkList {
		answer.ChunkHashes = orEmpty(found.ChunkHashes)
	}
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// Questions about the citation set whose seq is in the path. They have no Path, because the answer to the first is
// sent byte for byte, and a request with the second has a body.
var (
	// CitationsDocumentQuestion asks for the citations document of a citation set (spec: Citations document).
	CitationsDocumentQuestion = Question{SeqParameters: []string{"seq"}}
	// PinnedRetrievalQuestion asks for a pinned retrieval, which prefers the chunks that a citation set cites (spec:
	// Pinned retrieval).
	PinnedRetrievalQuestion = Question{SharedParameters: ProofsParameter, SeqParameters: []string{"seq"}}
)

// CitationSet returns the citation set whose seq is in the path of the request.
func CitationSet(v *View, elements Parameters) (citations.Set, error) {
	seq, _, err := elements.ParseUint("seq")
	if err != nil {
		return citations.Set{}, err
	}
	set, err := citations.Get(v.Context, v.View, seq)
	return set, notFound(err, "no citation set has the given seq")
}

// Retrieve selects at most topK of the chunks, and prefers those that the citation set cites. The answer also lists
// the cited chunks that were not selected: in Cut if they are in chunks, and otherwise in Missing. Before Retrieve
// builds the answer, it calls hold with the total length of the selected chunks in bytes, and returns any error from
// hold. The answer can be many times longer than the request, because many chunks can share one source id.
func Retrieve(v *View, set *citations.Set, chunks []rules.Chunk, topK int, hold func(size int64) error) (*wire.PinnedRetrieval, error) {
	held, named := make(map[string]bool), make(map[string]bool)
	for _, c := range chunks {
		held[string(c.Hash)] = true
	}
	var required [][]byte
	for _, c := range set.Citations {
		required = append(required, []byte(c.ChunkHash))
	}
	chosen := rules.SelectPinnedChunks(chunks, required, topK)
	size := int64(0)
	for _, c := range chosen {
		size += int64(len(c.Hash) + len(c.Text) + len(c.SourceID))
	}
	if err := hold(size); err != nil {
		return nil, err
	}
	answer := &wire.PinnedRetrieval{RowMembers: v.row(set.Seq), Chunks: []wire.PinnedChunk{}, Missing: []string{}, Cut: []string{}}
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
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}
