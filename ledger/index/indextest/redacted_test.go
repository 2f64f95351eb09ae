package indextest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
)

func redacting(t tester, numbers ...uint64) string {
	t.Helper()
	list := new(seqs.List)
	for _, seq := range numbers {
		require.True(t, list.Append(seq))
	}
	return string(record.NewRedaction("asked for", list).AppendBodyPrefix(nil, poster))
}

// note returns the body of a note on a record.
func note(t tester, seq uint64, topic string) string {
	t.Helper()
	v, err := record.ParseNote(seq, fmt.Appendf(nil, `{"topic":%q,"timestamp":"2024-01-01T00:00:00Z"}`, topic))
	require.NoError(t, err)
	return string(v.AppendBodyPrefix(nil, poster))
}

// Notes can be found by kind, record, and topic, and appear in no other list.
func TestNotesAreListed(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	log.append(plain(t, 1), plain(t, 2), note(t, 1, "review"), note(t, 2, "review"), note(t, 1, "step"))
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	seqs := func(size uint64, list lister, q records.Filter) (seqs []uint64) {
		v, err := f.View(size)
		require.NoError(t, err)
		for _, r := range allRecords(t, v, list, q, 1) {
			seqs = append(seqs, r.Seq)
		}
		require.NoError(t, v.Close())
		return seqs
	}
	with := func(values ...records.Value) records.Filter {
		return records.Filter{Kind: record.KindNote, Values: values}
	}
	on, review := records.Value{Name: "record_seq", Text: "1"}, records.Value{Name: "topic", Text: "review"}
	require.Equal(t, []uint64{5, 4, 3}, seqs(6, records.List, with()))
	require.Equal(t, []uint64{5, 3}, seqs(6, records.List, with(on)))
	require.Equal(t, []uint64{3}, seqs(5, records.List, with(on)))
	require.Equal(t, []uint64{4, 3}, seqs(6, records.List, with(review)))
	require.Equal(t, []uint64{3}, seqs(6, records.List, with(on, review)))
	require.Empty(t, seqs(6, records.ListByOccurrence, with()))
	require.Empty(t, seqs(6, records.List, records.Filter{Values: []records.Value{on}}))
	require.Equal(t, []uint64{2, 1}, seqs(6, records.List, records.Filter{}))
	require.NoError(t, s.Close())
}

// Redactions can be found by kind, at any log size, and appear in no other list.
func TestRedactionsAreListed(t *testing.T) {
	log := newJournal(t, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	log.append(plain(t, 1), plain(t, 2), redacting(t, 1), plain(t, 3), redacting(t, 2, 4))
	s := openTest(t, testConfig(vfs.NewMem()))
	f := follow(t, s, log)
	log.catchUp(f)
	log.check(f)
	seqs := func(size uint64, list lister, q records.Filter) (seqs []uint64) {
		v, err := f.View(size)
		require.NoError(t, err)
		for _, r := range allRecords(t, v, list, q, 1) {
			require.Equal(t, q.Kind == record.KindContentRedacted, r.Kind == record.KindContentRedacted)
			if r.Kind == record.KindContentRedacted {
				require.Empty(t, r.State)
				require.Equal(t, "{}", string(r.Hashes))
				require.True(t, strings.Contains(string(r.Body), `"reason":"asked for"`))
			}
			seqs = append(seqs, r.Seq)
		}
		require.NoError(t, v.Close())
		return seqs
	}
	redactions := records.Filter{Kind: record.KindContentRedacted, IncludeBodies: true}
	require.Equal(t, []uint64{5, 3}, seqs(6, records.List, redactions))
	require.Equal(t, []uint64{3}, seqs(5, records.List, redactions))
	require.Empty(t, seqs(3, records.List, redactions))
	require.Empty(t, seqs(6, records.ListByOccurrence, redactions), "redactions have no time of occurrence")
	require.Empty(t, seqs(6, records.List, records.Filter{Kind: record.KindContentRedacted, State: record.StateLive}))
	require.Empty(t, seqs(6, records.List, records.Filter{Kind: record.KindContentRedacted, Values: []records.Value{{Name: "model", Text: "m"}}}))
	require.Equal(t, []uint64{4, 2, 1}, seqs(6, records.List, records.Filter{}))
	require.Equal(t, []uint64{4, 2, 1}, seqs(6, records.List, records.Filter{Kind: record.KindIPCRecord}))

	v, err := f.LatestView()
	require.NoError(t, err)
	state, err := records.StateOf(v, 1)
	require.NoError(t, err)
	require.Equal(t, string(record.StateLive), state, "a redaction does not change the record's state")
	_, _, err = records.List(context.Background(), v, redactions, index.PageRequest{Limit: 1, After: []byte("x")})
	require.ErrorIs(t, err, index.ErrInvalidPosition)
	require.NoError(t, v.Close())
	require.NoError(t, s.Close())
}
