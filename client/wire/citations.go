package wire

import "encoding/json"

// CitationDriftRow describes how a citation set differs from the previous one. PreviousSeq and
// Jaccard are nil in the first row.
type CitationDriftRow struct {
	RowMembers
	RunID       *string  `json:"run_id"`
	Time        Time     `json:"time"`
	PreviousSeq *uint64  `json:"against"`
	Added       []string `json:"added"` // Added, Removed and Kept contain chunk hashes
	Removed     []string `json:"removed"`
	Kept        []string `json:"kept"`
	Jaccard     *float64 `json:"jaccard"` // Jaccard similarity of the two sets of chunks, from 0 to 1, with six decimal places
}

// ChunkConflict is a chunk that citations attribute to several sources.
type ChunkConflict struct {
	RowMembers
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"`
	Sources     []SourceUse `json:"sources"`
}

// SourceUse names a source to which a chunk is attributed, and the first citation set that does so.
type SourceUse struct {
	SourceID string `json:"source_id"`
	Seq      uint64 `json:"seq"`
}

// StaleCitationRow is a citation set that cites a superseded chunk.
type StaleCitationRow struct {
	RowMembers
	RunID        *string `json:"run_id"`
	Subject      string  `json:"subject"`
	SourceID     string  `json:"source_id"`
	ChunkHash    string  `json:"chunk_hash"`
	SupersededBy uint64  `json:"superseded_by"` // seq of the event that superseded the chunk
	Cause        string  `json:"how"`           // how the chunk was superseded: recited, registered or not_listed
}

// CitingSetRow is a citation set that cites a chunk or a source.
type CitingSetRow struct {
	RowMembers
	RunID     *string       `json:"run_id"`
	Subject   string        `json:"subject"`
	Time      Time          `json:"time"`
	Citations []CitationRow `json:"citations"`
}

// CitationRow is one citation as recorded in the log.
type CitationRow struct {
	ChunkHash string      `json:"chunk_hash"`
	SourceID  string      `json:"source_id"`
	Weight    json.Number `json:"weight"` // formatted exactly as in the event
	Section   *string     `json:"section"`
}

// CitationsDocument holds the citations of a set twice: grouped by section, and as one list.
type CitationsDocument struct {
	BySection    map[string][]DocumentCitation `json:"by_section"`
	AllCitations []DocumentCitation            `json:"all_citations"`
	TotalCount   uint64                        `json:"total_count"`
	SourceIDs    []string                      `json:"source_ids"`
}

// DocumentCitation is one citation with its text. Text is nil if the ledger does not have the
// text.
type DocumentCitation struct {
	ChunkHash string  `json:"chunk_hash"`
	SourceID  string  `json:"source_id"`
	Text      *string `json:"text"`
	Weight    float64 `json:"weight"`
	Section   *string `json:"section"`
}

// RetrievalRequest asks for a pinned retrieval, which selects chunks from the given sources.
type RetrievalRequest struct {
	Sources []RetrievalSource `json:"sources,omitempty"`
	TopK    *uint64           `json:"top_k,omitempty"` // default 5
	Query   json.RawMessage   `json:"query,omitempty"` // the server ignores Query and Seed
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
// set cites, then others up to top_k.
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
	SourceID string `json:"source_id"`
}

// Source describes a source as of its last registration or revocation. Seq is the seq of that
// event.
type Source struct {
	RowMembers
	SourceID   string  `json:"source_id"`
	Registered bool    `json:"registered"`
	Time       Time    `json:"time"`
	Title      *string `json:"title"`
	Reason     *string `json:"reason"`
	ChunkCount *uint64 `json:"chunk_count"` // nil if the registration has no list of chunks
}

// SourceAnswer is a source with its chunks.
type SourceAnswer struct {
	IndexedTreeSize
	Source
	ChunkHashes []string `json:"chunk_hashes"`
}
