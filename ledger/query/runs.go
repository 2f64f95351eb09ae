package query

import (
	"errors"
	"fmt"
	"strings"

	"colophon/client/wire"
	"colophon/ledger/index/citations"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
)

// runQuestions lists the questions about all records that have the same run_id (spec: Comparing runs).
var runQuestions = []Question{
	{Path: "/runs/compare", SharedParameters: StateParameter | ProofsParameter, ParameterNames: []string{"a", "b"}, ParseParameters: askWith(parseRunPair, CompareRuns)},
}

// RunPair holds the run_ids of two runs to compare.
type RunPair struct{ A, B string }

func parseRunPair(p Parameters) (pair RunPair, err error) {
	for _, name := range [...]string{"a", "b"} {
		if !p.Has(name) {
			return pair, invalid(name, "is required: the run_id of a run")
		}
	}
	return RunPair{p["a"], p["b"]}, nil
}

// CompareRuns compares the latest IPC records, run-DAGs, and citation sets of two runs.
func CompareRuns(v *View, pair RunPair) (*wire.RunsComparison, error) {
	answer, err := new(wire.RunsComparison), error(nil)
	if answer.A, err = recordsOfRun(v, "a", pair.A); err != nil {
		return nil, err
	}
	if answer.B, err = recordsOfRun(v, "b", pair.B); err != nil {
		return nil, err
	}
	var summaries []string
	a, b := &answer.A, &answer.B
	if a.IPCRecordSeq != nil && b.IPCRecordSeq != nil {
		if answer.IPCChange, err = attribute(v, RecordPair{*a.IPCRecordSeq, *b.IPCRecordSeq}); err != nil {
			return nil, err
		}
		answer.Cause = &answer.IPCChange.Cause
		summaries = append(summaries, answer.IPCChange.Summary)
	}
	if a.RunDAGSeq != nil && b.RunDAGSeq != nil {
		if answer.RunDAGChange, err = compareRunDAGs(v, RecordPair{*a.RunDAGSeq, *b.RunDAGSeq}); err != nil {
			return nil, err
		}
		summaries = append(summaries, answer.RunDAGChange.Summary)
	}
	if err := compareSets(v, answer); err != nil {
		return nil, err
	}
	if answer.CitationSetChange != nil {
		summaries = append(summaries, answer.CitationSetChange.Summary)
	}
	if len(summaries) == 0 {
		summaries = append(summaries, "The two runs have no kind of record in common.")
	}
	if answer.SourcesChanged {
		summaries = append(summaries, "A cited source no longer has the same chunks.")
	}
	answer.Summary = strings.Join(summaries, " ")
	answer.IndexedTreeSize, err = v.tree()
	return answer, err
}

// recordsOfRun finds the latest records of a run for CompareRuns. name is the parameter that errors refer to.
func recordsOfRun(v *View, name, run string) (found wire.ComparedRun, err error) {
	found = wire.ComparedRun{RunID: run, More: []wire.Kind{}}
	for _, of := range []struct {
		kind   record.Kind
		seq    **uint64
		latest func(*View, string, string, record.Kind) (*uint64, bool, error)
	}{
		{record.KindIPCRecord, &found.IPCRecordSeq, latestRecord},
		{record.KindRunDAG, &found.RunDAGSeq, latestRecord},
		{record.KindCitationSet, &found.CitationSetSeq, latestSet},
	} {
		var more bool
		if *of.seq, more, err = of.latest(v, name, run, of.kind); err != nil {
			return found, err
		}
		if more {
			found.More = append(found.More, wire.Kind(of.kind))
		}
	}
	if found.IPCRecordSeq == nil && found.RunDAGSeq == nil && found.CitationSetSeq == nil {
		return found, &Error{ReasonNotFound, name, fmt.Sprintf("no live IPC record, live run-DAG, or citation set has the run_id %q; use state=any to include records in any state", run)}
	}
	return found, nil
}

// latestRecord returns the latest record of a kind in a run, or nil if there is none. It considers only live
// records unless the view includes all states. more reports whether the run may have others of that kind.
func latestRecord(v *View, name, run string, kind record.Kind) (seq *uint64, more bool, err error) {
	seq, more, err = records.LatestSeqOfRun(v.Context, v.View, run, kind, v.AnyState)
	if errors.Is(err, records.ErrTooManyRecords) {
		err = invalid(name, "names a run with too many records to search for a live record of kind %s; instead, compare two records by seq with /drift/attribution or /run-dags/compare", kind)
	}
	return seq, more, err
}

// latestSet is like latestRecord, but for citation sets, which have no state.
func latestSet(v *View, _, run string, _ record.Kind) (*uint64, bool, error) {
	return citations.LatestSetOfRun(v.View, run)
}

// compareSets compares the citation sets of two runs if both have one. It also lists the changes to the sources that
// the sets cite.
func compareSets(v *View, answer *wire.RunsComparison) error {
	answer.LostChunks, answer.Reregistrations = []wire.LostChunk{}, []wire.Reregistration{}
	var sets [2]*citations.Set
	for i, seq := range [...]*uint64{answer.A.CitationSetSeq, answer.B.CitationSetSeq} {
		if seq == nil {
			continue
		}
		set, err := citations.Get(v.Context, v.View, *seq)
		if err != nil {
			return err
		}
		sets[i] = &set
		if i == 1 && sets[0] != nil && sets[0].Seq == set.Seq {
			continue // the lost chunks of this set are already listed
		}
		lost, err := citations.FindLostChunks(v.View, &set)
		if err != nil {
			return err
		}
		for _, c := range lost {
			answer.LostChunks = append(answer.LostChunks, wire.LostChunk{RowMembers: v.row(set.Seq), SourceID: c.SourceID, ChunkHash: c.ChunkHash, Registration: c.RegistrationSeq})
		}
	}
	if a, b := sets[0], sets[1]; a != nil && b != nil {
		answer.CitationSetChange = setChange(v, a, b)
		changed, err := citations.FindReregistrations(v.View, a, b)
		if err != nil {
			return err
		}
		for _, s := range changed {
			answer.Reregistrations = append(answer.Reregistrations, wire.Reregistration{SourceID: s.SourceID, A: s.SeqA, B: s.SeqB})
		}
	}
	answer.SourcesChanged = len(answer.LostChunks)+len(answer.Reregistrations) > 0
	return nil
}

func setChange(v *View, a, b *citations.Set) *wire.CitationSetChange {
	found := citations.Compare(a, b)
	change := &wire.CitationSetChange{A: comparedSet(v, a), B: comparedSet(v, b), Added: orEmpty(found.Added), Removed: orEmpty(found.Removed),
		Kept: orEmpty(found.Kept), OtherSources: []wire.ChunkSources{}, Jaccard: found.Jaccard, Summary: found.Sentence()}
	for _, c := range found.SourceChanges {
		change.OtherSources = append(change.OtherSources, wire.ChunkSources{ChunkHash: c.ChunkHash, A: c.SourcesA, B: c.SourcesB})
	}
	return change
}

func comparedSet(v *View, s *citations.Set) wire.ComparedCitationSet {
	return wire.ComparedCitationSet{RowMembers: v.row(s.Seq), Subject: s.Subject, Time: timeOf(s.Time)}
}
