// Package facts computes the derived members of a record, which follow from its event and all
// earlier events (spec: Derived members).
package facts

import (
	"context"

	"colophon/client/wire"
	"colophon/ledger/index"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/paths"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rundags"
	"colophon/ledger/index/runs"
	"colophon/ledger/record"
)

// DeriveMembers returns the derived members of a record, which follow from its event and all earlier
// events (spec: Derived members). No proof covers them.
func DeriveMembers(ctx context.Context, view *index.View, seq uint64, kind record.Kind) (facts wire.DerivedMembers, err error) {
	switch kind {
	case record.KindIPCRecord:
		return runFacts(ctx, view, seq)
	case record.KindRunDAG:
		d, err := rundags.CompareWithPrevious(ctx, view, seq)
		if err != nil || d.OtherSeq == 0 {
			return facts, err
		}
		facts.Divergence = &wire.DerivedDivergence{PreviousSeq: d.OtherSeq, FirstDivergingStage: d.Stage, Cause: wire.DivergenceCause(d.DivergenceCause.Cause)}
		if d.DimensionsKnown {
			facts.Divergence.DifferingDimensions = append([]string{}, d.Dimensions...)
		}
	case record.KindPathFingerprint:
		change, err := paths.StatusOf(ctx, view, seq)
		if err != nil {
			return facts, err
		}
		facts.PathID, facts.Category, facts.Validated = change.PathID, string(change.Category), &change.Validated
		facts.EarlierValidationSeq, facts.OtherBase = change.EarlierValidationSeq, change.HasOtherBase
	case record.KindCitationSet:
		return citationFacts(ctx, view, seq)
	}
	return facts, nil
}

// runFacts returns how an IPC record drifted from the previous run. The result is empty if the
// record is not a run.
func runFacts(ctx context.Context, view *index.View, seq uint64) (facts wire.DerivedMembers, err error) {
	r, err := records.ReadIPCRecord(ctx, view, seq)
	if err != nil {
		return facts, err
	}
	if !r.IsRun() {
		return facts, nil
	}
	found, ok, err := runs.DriftOf(ctx, view, seq)
	if err != nil || !ok {
		return facts, err
	}
	facts.Drift = &wire.DerivedDrift{PreviousSeq: found.PreviousSeq, Cause: wire.DriftCause(found.Cause), Variables: []string{}, OutputChanged: found.OutputChanged}
	for _, difference := range found.Differences {
		facts.Drift.Variables = append(facts.Drift.Variables, difference.Variable)
	}
	return facts, nil
}

// citationFacts returns the conflicts and the unregistered sources of a citation set.
func citationFacts(ctx context.Context, view *index.View, seq uint64) (facts wire.DerivedMembers, err error) {
	found, err := citations.ListSetConflicts(ctx, view, seq)
	if err != nil {
		return facts, err
	}
	facts.Conflicts = make([]wire.DerivedChunkConflict, len(found))
	for i, c := range found {
		sources := make([]wire.SourceUse, len(c.Sources))
		for j, s := range c.Sources {
			sources[j] = wire.SourceUse{SourceID: s.ID, Seq: s.Seq}
		}
		facts.Conflicts[i] = wire.DerivedChunkConflict{ChunkHash: c.ChunkHash, SourceCount: c.SourceCount, Sources: sources}
	}
	facts.UnregisteredSources, err = citations.UnregisteredSources(ctx, view, seq)
	return facts, err
}
