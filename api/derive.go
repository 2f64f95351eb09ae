package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"colophon/ledger"
	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
	"colophon/proofs"
)

// deriveTimeout bounds how long the answer to a write waits for its derived facts. The record
// is durable by then. A receipt must not be lost because the index waits for disk space.
// index that waits for disk space.
const deriveTimeout = 10 * time.Second

// derivedFacts follow from all events up to and including a record's own (spec: Derived
// members). No proof covers them, except Incomplete, which follows from the record's event
// alone.
type derivedFacts struct {
	Drift               *runDrift       `json:"drift,omitempty"`
	Incomplete          []string        `json:"incomplete,omitempty"` // the fields that an IPC record lacks to be a run
	Divergence          *dagDivergence  `json:"divergence,omitempty"`
	PathID              string          `json:"path_id,omitempty"`
	Category            paths.Category  `json:"category,omitempty"`
	Validated           *bool           `json:"validated,omitempty"`
	Conflicts           *[]chunkSources `json:"conflicts,omitempty"`
	UnregisteredSources *[]string       `json:"unregistered_sources,omitempty"`
}

// runDrift is the cause of the change since the previous live run with the same input_hash.
type runDrift struct {
	Against       uint64   `json:"against"`
	Cause         string   `json:"cause"`
	Variables     []string `json:"variables"`
	OutputChanged bool     `json:"output_changed"`
}

// dagDivergence is the first stage that differs from the previous live run-DAG with the same
// question_hash.
type dagDivergence struct {
	Against        uint64  `json:"against"`
	FirstDiverging *string `json:"first_diverging_stage"`
}

// chunkSources is a chunk that is cited under several sources.
type chunkSources struct {
	ChunkHash   string      `json:"chunk_hash"`
	SourceCount uint64      `json:"source_count"`
	Sources     []sourceUse `json:"sources"` // only the first few
}

type sourceUse struct {
	SourceID string `json:"source_id"`
	Seq      uint64 `json:"seq"` // the first set that cites the chunk under it
}

// appendReceipt appends a receipt as JSON. It adds the derived facts if the request wants them
// and the index has them within deriveTimeout.
func (s *Server) appendReceipt(ctx context.Context, dst []byte, l *ledger.Ledger, out *outcome, receipt *proofs.Receipt) []byte {
	dst = receipt.AppendJSON(dst)
	if !out.derive {
		return dst
	}
	facts, err := s.derive(ctx, l, receipt.Seq, out.record.Kind)
	if err != nil {
		s.config.Log.Warn("answering without derived facts", "ledger", l.Name(), "seq", receipt.Seq, "error", err)
		return dst
	}
	if len(facts) > len("{}") {
		dst = append(append(dst[:len(dst)-1], ','), facts[1:]...)
	}
	return dst
}

// derive returns the derived facts of a record as a JSON object.
func (s *Server) derive(ctx context.Context, l *ledger.Ledger, seq uint64, kind record.Kind) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deriveTimeout)
	defer cancel()
	follower := s.config.Index.Follower(l.Name())
	if err := follower.Wait(ctx, seq+1); err != nil {
		return nil, err
	}
	view, err := follower.View(seq + 1)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	facts, err := factsOf(ctx, view, seq, kind)
	if err != nil {
		return nil, fmt.Errorf("deriving the facts of event %d: %w", seq, err)
	}
	return json.Marshal(facts)
}

func factsOf(ctx context.Context, view *index.View, seq uint64, kind record.Kind) (facts derivedFacts, err error) {
	switch kind {
	case record.IPCRecord:
		return facts, facts.addRunFacts(ctx, view, seq)
	case record.RunDAG:
		d, err := rundags.DivergenceOf(ctx, view, seq)
		if err != nil || d.Against == 0 {
			return facts, err
		}
		facts.Divergence = &dagDivergence{d.Against, d.Stage}
	case record.PathFingerprint:
		change, err := paths.ChangeOf(ctx, view, seq)
		if err != nil {
			return facts, err
		}
		facts.PathID, facts.Category, facts.Validated = change.PathID, change.Category, &change.Validated
	case record.CitationSet:
		return facts, facts.addCitationFacts(ctx, view, seq)
	}
	return facts, nil
}

// addRunFacts adds the derived facts of an IPC record.
func (d *derivedFacts) addRunFacts(ctx context.Context, view *index.View, seq uint64) error {
	r, err := records.ReadIPCRecord(ctx, view, seq)
	if err != nil {
		return err
	}
	if !r.IsRun() {
		d.Incomplete = missingRunFields(&r.IPC)
		return nil
	}
	found, ok, err := runs.DriftOf(ctx, view, seq)
	if err != nil || !ok {
		return err
	}
	d.Drift = &runDrift{Against: found.Against, Cause: string(found.Cause), Variables: []string{}, OutputChanged: found.OutputChanged}
	for _, difference := range found.Differences {
		d.Drift.Variables = append(d.Drift.Variables, difference.Variable)
	}
	return nil
}

// missingRunFields names the fields that an IPC record lacks to be a run. The other fields of
// a run are required of every IPC record.
func missingRunFields(r *event.IPC) (names []string) {
	for _, part := range []struct {
		name  string
		value []byte
	}{{"system_prompt", r.SystemPromptHash}, {"output", r.OutputHash}, {"seed", r.Seed}} {
		if part.value == nil {
			names = append(names, part.name)
		}
	}
	return names
}

// addCitationFacts adds the derived facts of a citation set.
func (d *derivedFacts) addCitationFacts(ctx context.Context, view *index.View, seq uint64) error {
	found, err := citations.ConflictsOf(ctx, view, seq)
	if err != nil {
		return err
	}
	conflicts := make([]chunkSources, len(found))
	for i, c := range found {
		conflicts[i] = chunkSources{ChunkHash: c.ChunkHash, SourceCount: c.Count, Sources: []sourceUse{}}
		for _, use := range c.Sources {
			conflicts[i].Sources = append(conflicts[i].Sources, sourceUse{use.ID, use.Seq})
		}
	}
	d.Conflicts = &conflicts
	unregistered, err := citations.UnregisteredSources(ctx, view, seq)
	if err == nil && unregistered != nil {
		d.UnregisteredSources = &unregistered
	}
	return err
}
