package wire

import (
	"net/url"
	"strings"
)

// EscapeRunID escapes a run_id for use as a path element. It also escapes the run_id "compare",
// because /runs/compare is a different route. It escapes the run_ids "." and "..", because proxies
// remove such path elements.
func EscapeRunID(runID string) string {
	switch runID {
	case "compare":
		return "%63ompare"
	case ".", "..":
		return strings.ReplaceAll(runID, ".", "%2E")
	}
	return url.PathEscape(runID)
}

// RunsComparison describes how run B differs from run A in their IPC records, run-DAGs, and
// citation sets. A comparison is nil unless both runs have a record of its kind.
type RunsComparison struct {
	IndexedTreeSize
	A                 ComparedRun        `json:"a"`
	B                 ComparedRun        `json:"b"`
	Cause             *DriftCause        `json:"cause"` // what caused the change between the IPC records
	IPCChange         *IPCChange         `json:"ipc_records"`
	RunDAGChange      *RunDAGChange      `json:"run_dags"`
	CitationSetChange *CitationSetChange `json:"citation_sets"`
	// SourcesChanged reports whether LostChunks or Reregistrations is not empty.
	SourcesChanged  bool             `json:"sources_changed"`
	LostChunks      []LostChunk      `json:"lost_chunks"`
	Reregistrations []Reregistration `json:"reregistered"`
	Summary         string           `json:"says"` // the comparison in one sentence
}

// ComparedRun names the records that are compared: the latest of each kind in a run. A seq is nil if
// the run has no record of that kind.
type ComparedRun struct {
	RunID          string  `json:"run_id"`
	IPCRecordSeq   *uint64 `json:"ipc_record"`
	RunDAGSeq      *uint64 `json:"run_dag"`
	CitationSetSeq *uint64 `json:"citation_set"`
	// More lists the kinds for which the run may have further records that are not compared. Such
	// records are older or not live.
	More []Kind `json:"more"`
}

// CitationSetChange describes the change from citation set A to citation set B.
type CitationSetChange struct {
	A            ComparedCitationSet `json:"a"`
	B            ComparedCitationSet `json:"b"`
	Added        []string            `json:"added"` // Added, Removed, and Kept contain chunk hashes
	Removed      []string            `json:"removed"`
	Kept         []string            `json:"kept"`
	OtherSources []ChunkSources      `json:"other_sources"` // kept chunks that the two sets cite from different sources
	Jaccard      float64             `json:"jaccard"`       // Jaccard similarity of the two sets of chunks, from 0 to 1, with six decimal places
	Summary      string              `json:"says"`          // the change in one sentence
}

// ComparedCitationSet is a citation set in a comparison.
type ComparedCitationSet struct {
	RowMembers
	Subject string `json:"subject"`
	Time    Time   `json:"time"`
}

// ChunkSources lists the sources to which each of the two citation sets attributes a chunk.
type ChunkSources struct {
	ChunkHash string   `json:"chunk_hash"`
	A         []string `json:"a"`
	B         []string `json:"b"`
}

// LostChunk is a chunk that a citation set cites although its source no longer lists it. Seq is the
// seq of the citation set.
type LostChunk struct {
	RowMembers
	SourceID     string `json:"source_id"`
	ChunkHash    string `json:"chunk_hash"`
	Registration uint64 `json:"registration"` // seq of the event that registered the source without the chunk
}

// Reregistration is a cited source whose registered list of chunks changed between citation sets A
// and B.
type Reregistration struct {
	SourceID string `json:"source_id"`
	A        uint64 `json:"a"` // seq of the registration in effect when set A was recorded
	B        uint64 `json:"b"`
}
