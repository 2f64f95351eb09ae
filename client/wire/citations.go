package wire

import "encoding/json"

// CitationDriftRow describes how a citation set differs from the previous one. PreviousSeq and
// Jaccard are nil in the first row.
type CitationDriftRow struct {
	RowMembers
	RunID       *string `json:"run_id"` // nil if the record names no run
	Time        Time    `json:"time"`
	PreviousSeq *uint64 `json:"against"` // seq of the previous set
	// Added, Removed, and Kept contain chunk hashes, each once. Added and Kept are in the order of this
	// set. Removed is in the order of the previous set.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Kept    []string `json:"kept"`
	// Jaccard is the Jaccard similarity of the two sets of chunks, from 0 to 1, with six decimal
	// places.
	Jaccard *float64 `json:"jaccard"`
}

// ChunkConflict is a chunk that citations attribute to several sources. Seq is the seq of the citation
// set that added the second source.
type ChunkConflict struct {
	RowMembers
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"` // number of all sources, of which Sources lists at most 16
	Sources     []SourceUse `json:"sources"`      // oldest first
}

// SourceUse names a source to which a chunk is attributed, and the first citation set that does so.
type SourceUse struct {
	SourceID string `json:"source_id"`
	Seq      uint64 `json:"seq"` // seq of that citation set
}

// StaleCitationRow is a citation set that cites a superseded chunk.
type StaleCitationRow struct {
	RowMembers
	RunID        *string `json:"run_id"`  // nil if the record names no run
	Subject      string  `json:"subject"` // subject of the citation set
	SourceID     string  `json:"source_id"`
	ChunkHash    string  `json:"chunk_hash"`    // hash of the superseded chunk
	SupersededBy uint64  `json:"superseded_by"` // seq of the event that superseded the chunk
	Cause        string  `json:"how"`           // how the chunk was superseded: recited, registered or not_listed
}

// CitingSetRow is a citation set that cites a chunk or a source.
type CitingSetRow struct {
	RowMembers
	RunID     *string       `json:"run_id"`  // nil if the record names no run
	Subject   string        `json:"subject"` // subject of the citation set
	Time      Time          `json:"time"`
	Citations []CitationRow `json:"citations"` // citations of the chunk or source, in the order of the set
}

// CitationRow is one citation as recorded in the log.
type CitationRow struct {
	ChunkHash string      `json:"chunk_hash"`
	SourceID  string      `json:"source_id"`
	Weight    json.Number `json:"weight"`  // from 0 to 1, formatted exactly as in the event
	Section   *string     `json:"section"` // nil if the citation names no section
}

// CitationsDocument holds the citations of a set twice: grouped by section, and as one list.
type CitationsDocument struct {
	BySection    map[string][]DocumentCitation `json:"by_section"`    // by section; "unknown" if a citation has none
	AllCitations []DocumentCitation            `json:"all_citations"` // in the order of the set
	TotalCount   uint64                        `json:"total_count"`   // number of citations
	SourceIDs    []string                      `json:"source_ids"`    // distinct and sorted
}

// DocumentCitation is one citation with its text. Text is nil if the ledger does not have the
// text.
type DocumentCitation struct {
	ChunkHash string  `json:"chunk_hash"`
	SourceID  string  `json:"source_id"`
	Text      *string `json:"text"`
	Weight    float64 `json:"weight"`  // from 0 to 1
	Section   *string `json:"section"` // nil if the citation names no section
}

// RetrievalRequest asks for a pinned retrieval, which selects chunks from the given sources.
type RetrievalRequest struct {
	Sources []RetrievalSource `json:"sources,omitempty"` // sources to take chunks from, in this order
	TopK    *uint64           `json:"top_k,omitempty"`   // maximum number of chunks to select; default 5
	Query   json.RawMessage   `json:"query,omitempty"`   // the server ignores Query and Seed
	Seed    json.RawMessage   `json:"seed,omitempty"`
}

// RetrievalSource is a source from which a retrieval can take chunks.
type RetrievalSource struct {
	ID     *string          `json:"id,omitempty"` // the server treats nil as "unknown"
	Chunks []RetrievalChunk `json:"chunks,omitempty"`
}

// RetrievalChunk is a chunk of a source.
type RetrievalChunk struct {
	Text *string `json:"text,omitempty"` // the server treats nil as ""
}

// PinnedRetrieval holds the chunks that a pinned retrieval selected: first those that the citation
// set cites, then others up to top_k. Seq is the seq of the citation set.
type PinnedRetrieval struct {
	IndexedTreeSize
	RowMembers
	Chunks  []PinnedChunk `json:"chunks"`
	Missing []string      `json:"missing"` // hashes of cited chunks that no given source contains
	Cut     []string      `json:"cut"`     // hashes of cited chunks that a source contains but that top_k left out
}

// PinnedChunk is one chunk of a [PinnedRetrieval].
type PinnedChunk struct {
	Hash     string `json:"hash"`
	Text     string `json:"text"`
	SourceID string `json:"source_id"` // ID of the source that contains the chunk
}

// Source describes a source as of its last registration or revocation. Seq is the seq of that
// event.
type Source struct {
	RowMembers
	SourceID   string  `json:"source_id"`
	Registered bool    `json:"registered"`  // false if the source was revoked
	Time       Time    `json:"time"`        // time of the last registration or revocation
	Title      *string `json:"title"`       // nil if the registration states none
	Reason     *string `json:"reason"`      // reason for the last registration or revocation; nil if none was given
	ChunkCount *uint64 `json:"chunk_count"` // nil if the registration has no list of chunks
}

// SourceAnswer is a source with its chunks.
type SourceAnswer struct {
	IndexedTreeSize
	Source
	ChunkHashes []string `json:"chunk_hashes"` // in the order of the registration; nil if it has no list
}
