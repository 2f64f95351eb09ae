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

// RunsComparison describes how the IPC record, the run-DAG, and the citation set of run B differ
// from those of run A. A comparison is nil unless both runs have a record of its kind.
type RunsComparison struct {
	IndexedTreeSize
	A                 ComparedRun        `json:"a"`
	B                 ComparedRun        `json:"b"`
	Cause             *DriftCause        `json:"cause"`         // why the IPC records differ; nil if IPCChange is nil
	IPCChange         *IPCChange         `json:"ipc_records"`   // nil unless both runs have an IPC record
	RunDAGChange      *RunDAGChange      `json:"run_dags"`      // nil unless both runs have a run-DAG
	CitationSetChange *CitationSetChange `json:"citation_sets"` // nil unless both runs have a citation set
	// SourcesChanged reports whether LostChunks or Reregistrations is not empty.
	SourcesChanged  bool             `json:"sources_changed"`
	LostChunks      []LostChunk      `json:"lost_chunks"`  // cited chunks that their sources no longer list
	Reregistrations []Reregistration `json:"reregistered"` // sources whose chunks changed between the two citation sets
	Summary         string           `json:"says"`         // the comparison in one sentence
}

// ComparedRun names the records that are compared: the latest of each kind in a run. A seq is nil if
// the run has no record of that kind.
type ComparedRun struct {
	RunID          string  `json:"run_id"`
	IPCRecordSeq   *uint64 `json:"ipc_record"`   // seq of the compared IPC record; nil if there is none
	RunDAGSeq      *uint64 `json:"run_dag"`      // seq of the compared run-DAG; nil if there is none
	CitationSetSeq *uint64 `json:"citation_set"` // seq of the compared citation set; nil if there is none
	// More lists the kinds for which the run may have further records that are not compared. Such
	// records are older or not live.
	More []Kind `json:"more"`
}

// CitationSetChange describes the change from citation set A to citation set B.
type CitationSetChange struct {
	A            ComparedCitationSet `json:"a"`
	B            ComparedCitationSet `json:"b"`
	Added        []string            `json:"added"`         // hashes of chunks that only B cites, in the order of B
	Removed      []string            `json:"removed"`       // hashes of chunks that only A cites, in the order of A
	Kept         []string            `json:"kept"`          // hashes of chunks that both cite, in the order of B
	OtherSources []ChunkSources      `json:"other_sources"` // kept chunks that A and B cite from different sources
	// Jaccard is the Jaccard similarity of the two sets of chunks, from 0 to 1, with six decimal
	// places. It is 1 if both sets are empty.
	Jaccard float64 `json:"jaccard"`
	Summary string  `json:"says"` // the change in one sentence
}

// ComparedCitationSet is a citation set in a comparison.
type ComparedCitationSet struct {
	RowMembers
	Subject string `json:"subject"` // what the citations are about
	Time    Time   `json:"time"`    // when the set was recorded
}

// ChunkSources lists the sources to which each of the two citation sets attributes a chunk.
type ChunkSources struct {
	ChunkHash string   `json:"chunk_hash"`
	A         []string `json:"a"` // sorted source IDs in set A
	B         []string `json:"b"` // sorted source IDs in set B
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
	B        uint64 `json:"b"` // seq of the registration in effect when set B was recorded
}
