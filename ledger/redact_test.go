package ledger_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/memory"
)

func setOf(numbers ...uint64) *seqs.Set {
	set := new(seqs.Set)
	for _, seq := range numbers {
		set.Add(seq)
	}
	return set
}

// redact redacts the records at seqs, and verifies the receipt of each event. It returns the number
// of events and the number of redacted records.
func redact(t testing.TB, l *ledger.Ledger, seqs ...uint64) (events, records int) {
	t.Helper()
	require.NoError(t, l.Redact(t.Context(), setOf(seqs...), "asked for", "alice", func(ack ledger.Ack, n int) error {
		events++
		records += n
		return verify(l, ack)
	}))
	return events, records
}

// content returns the content that is stored under the SHA-256 of text, or "" if there is none.
func content(t testing.TB, l *ledger.Ledger, text string) string {
	t.Helper()
	b, err := l.Reader().Content(t.Context(), sha256.Sum256([]byte(text)))
	if !errors.Is(err, storage.ErrNotFound) {
		require.NoError(t, err)
	}
	return string(b)
}

func TestRedactionErasesUnneededContent(t *testing.T) {
	l := memoryLedger(t)
	for i := range 4 { // all four share a system prompt, and the last two also share an output
		post(t, l, ipc(t, "", fmt.Sprint("output ", min(i, 2))), "")
	}
	plan, err := l.PlanRedaction(t.Context(), setOf(0, 1, 3), noRest)
	require.NoError(t, err)
	require.Equal(t, &ledger.RedactionPlan{
		RecordCount: 2, EventsWithoutContent: 1, FirstRecordSeqs: []uint64{1, 3}, RecordsSharingContent: 2,
		ErasedContent: ledger.ContentTotals{Pieces: 2, Bytes: plan.ErasedContent.Bytes},
		KeptContent:   ledger.ContentTotals{Pieces: 3, Bytes: plan.KeptContent.Bytes},
	}, plan, "the first record's own payload and output are erased")
	require.Greater(t, plan.ErasedContent.Bytes, uint64(len("output 0")))

	events, records := redact(t, l, 0, 1, 3)
	require.Equal(t, 1, events)
	require.Equal(t, 2, records)
	require.Empty(t, content(t, l, "output 0"))
	require.NotEmpty(t, content(t, l, "output 1"))
	require.NotEmpty(t, content(t, l, "output 2"), "another record needs it")
	require.NotEmpty(t, content(t, l, "Be brief."))
	for seq, want := range map[uint64]uint64{1: 5, 3: 5} {
		by, err := l.Reader().RedactingSeq(t.Context(), seq)
		require.NoError(t, err)
		require.Equal(t, want, by)
	}
	require.NoError(t, walk(t, l))

	events, records = redact(t, l, 1, 2, 3, 4)
	require.Equal(t, 1, events)
	require.Equal(t, 2, records, "two are redacted already")
	for _, text := range []string{"output 0", "output 1", "output 2", "Be brief."} {
		require.Empty(t, content(t, l, text))
	}
	plan, err = l.PlanRedaction(t.Context(), setOf(1, 2, 3, 4), noRest)
	require.NoError(t, err)
	require.Equal(t, &ledger.RedactionPlan{AlreadyRedactedCount: 4,
		EarlierRedactions: []ledger.EarlierRedaction{{RecordSeq: 1, RedactionSeq: 5}, {RecordSeq: 2, RedactionSeq: 6}, {RecordSeq: 3, RedactionSeq: 5}, {RecordSeq: 4, RedactionSeq: 6}}}, plan)
	events, _ = redact(t, l, 0, 1, 2, 3, 4, 5)
	require.Zero(t, events, "there is nothing left to erase")
	require.NoError(t, walk(t, l))
}

// The content_redacted event names the actor, the reason, and the redacted records.
func TestRedactionEvent(t *testing.T) {
	l := memoryLedger(t)
	for i := range 5 {
		post(t, l, ipc(t, "", fmt.Sprint(i)), "")
	}
	redact(t, l, 1, 2, 4)
	entry, err := l.Reader().Entry(t.Context(), 6)
	require.NoError(t, err)
	var event struct {
		Actor, Kind string
		Record      struct {
			Reason string
			Seqs   json.RawMessage
		}
	}
	require.NoError(t, unmarshal(entry[proofs.HashSize:], &event))
	require.Equal(t, "alice", event.Actor)
	require.Equal(t, "content_redacted", event.Kind)
	require.Equal(t, "asked for", event.Record.Reason)
	require.Equal(t, `[[1,2],4]`, string(event.Record.Seqs))
}

// A redacted record keeps its idempotency key. Posting the record again with that key is a replay,
// which does not restore the content. Posting it with another key appends another record and stores
// the content.
func TestRedactedRecordIsReplayed(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "run", "text"), "")
	redact(t, l, 1)
	again := post(t, l, ipc(t, "run", "text"), "")
	require.Equal(t, ledger.OutcomeReplayed, again.Outcome)
	require.EqualValues(t, 1, again.KeyHolderSeq)
	require.Empty(t, content(t, l, "text"))
	require.NoError(t, walk(t, l))

	post(t, l, ipc(t, "another run", "text"), "")
	require.Equal(t, "text", content(t, l, "text"))
	require.NoError(t, walk(t, l))
}

// A redaction whose idempotency key is already claimed by another record erases nothing.
func TestKeyOfARedaction(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "", "text"), "record")
	withdraw := func(reason, key string) ledger.Ack {
		v, err := record.ParseRedaction(1, []byte(`{"reason":"`+reason+`"}`))
		require.NoError(t, err)
		s, err := l.PrepareAction(v, ledger.AnonymousActor, key)
		require.NoError(t, err)
		w, err := l.PrepareRedaction(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, w.Digests, 3)
		s.Redactions = []storage.Redaction{w}
		ack, err := l.Submit(s)
		require.NoError(t, err)
		return ack
	}
	require.Equal(t, ledger.OutcomeConflicted, withdraw("r", "record").Outcome)
	require.Equal(t, "text", content(t, l, "text"))
	require.NoError(t, walk(t, l))
	require.Equal(t, ledger.OutcomeAppended, withdraw("r", "key").Outcome)
	require.Equal(t, ledger.OutcomeReplayed, withdraw("r", "key").Outcome)
	require.Equal(t, ledger.OutcomeConflicted, withdraw("q", "key").Outcome)
	require.Equal(t, ledger.OutcomeAppended, withdraw("r", "").Outcome, "the redaction is logged again, without effect")
	by, err := l.Reader().RedactingSeq(t.Context(), 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, by)
	require.NoError(t, walk(t, l))
}

// Concurrent redactions of the same records all succeed. Only the first one takes effect.
func TestRedactionsAtOnce(t *testing.T) {
	l := memoryLedger(t)
	for i := range 30 {
		post(t, l, ipc(t, "", fmt.Sprint(i)), "")
	}
	parallel(20, func(i int) {
		if i%4 == 0 {
			post(t, l, ipc(t, "", fmt.Sprint(i)), "")
		}
		redact(t, l, uint64(1+i), uint64(2+i), uint64(3+i))
	})
	for seq := uint64(1); seq <= 22; seq++ {
		_, err := l.Reader().RedactingSeq(t.Context(), seq)
		require.NoError(t, err)
	}
	require.NoError(t, walk(t, l))
}

// postRuns posts runs that share a system prompt and have different outputs. It waits until they
// are committed.
func postRuns(t *testing.T, l *ledger.Ledger, records int) {
	t.Helper()
	var tickets []ledger.Ticket
	for i := range records {
		ticket, err := l.Enqueue(t.Context(), submission(t, l, ipc(t, "", fmt.Sprint(i)), ""))
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	for _, ticket := range tickets {
		_, err := ticket.Wait()
		require.NoError(t, err)
	}
}

// Redact splits a large redaction into several events, each of which takes effect on its own. After
// an interruption, another call redacts the remaining records.
func TestLargeRedaction(t *testing.T) {
	l := memoryLedger(t)
	const records = 5000
	postRuns(t, l, records)
	all := new(seqs.Set)
	for seq := range uint64(records) {
		all.Add(1 + seq)
	}
	plan, err := l.PlanRedaction(t.Context(), all, noRest)
	require.NoError(t, err)
	require.EqualValues(t, records, plan.RecordCount)
	require.EqualValues(t, 2*records+1, plan.ErasedContent.Pieces, "each piece is counted once")
	require.Len(t, plan.FirstRecordSeqs, ledger.MaxListedRecords)
	require.Zero(t, plan.KeptContent.Pieces+plan.RecordsSharingContent)

	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	err = l.Redact(ctx, all, "r", "alice", func(_ ledger.Ack, n int) error {
		done += n
		cancel()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, records+2, l.Head().Size, "one event")
	require.NoError(t, walk(t, l))
	plan, err = l.PlanRedaction(t.Context(), all, noRest)
	require.NoError(t, err)
	require.EqualValues(t, records-done, plan.RecordCount)
	require.EqualValues(t, done, plan.AlreadyRedactedCount)
	require.Len(t, plan.EarlierRedactions, ledger.MaxListedRecords)

	_, rest := redact(t, l, slices.Collect(all.All())...)
	require.Equal(t, records-done, rest)
	require.Empty(t, content(t, l, "Be brief."))
	require.NoError(t, walk(t, l))
}

func TestFrozenLedgerIsNotRedacted(t *testing.T) {
	l := memoryLedger(t)
	post(t, l, ipc(t, "", "text"), "")
	require.NoError(t, l.Freeze(t.Context()))
	err := l.Redact(t.Context(), setOf(1), "r", "alice", func(ledger.Ack, int) error { return nil })
	require.ErrorIs(t, err, ledger.ErrFrozen)
	require.Equal(t, "text", content(t, l, "text"))
}

func TestRedactionOfMissingRecords(t *testing.T) {
	l := memoryLedger(t)
	require.ErrorIs(t, l.Redact(t.Context(), setOf(7), "r", "alice", nil), storage.ErrNotFound)
	_, err := l.PlanRedaction(t.Context(), setOf(7), noRest)
	require.ErrorIs(t, err, storage.ErrNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.PlanRedaction(ctx, setOf(0), noRest)
	require.ErrorIs(t, err, context.Canceled)
}

// Redact erases exactly what PlanRedaction predicts, regardless of which records share content.
func TestRedactionDoesWhatItsPlanSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		database := memory.New()
		l, err := ledger.Open(context.Background(), store(t, database), config(t))
		require.NoError(rt, err)
		defer func() { require.NoError(rt, l.Close()) }()
		texts := []string{"a", "b", "c", "d"}
		records := rapid.IntRange(1, 12).Draw(rt, "records")
		held := make(map[string]map[uint64]bool) // maps each text to the records that need it
		for i := range records {
			own := rapid.SliceOfDistinct(rapid.SampledFrom(texts), rapid.ID).Draw(rt, "texts")
			post(t, l, citing(t, own), "")
			for _, text := range own {
				if held[text] == nil {
					held[text] = make(map[uint64]bool)
				}
				held[text][uint64(1+i)] = true
			}
		}
		for range rapid.IntRange(1, 4).Draw(rt, "redactions") {
			seqs := rapid.SliceOfDistinct(rapid.Uint64Range(0, uint64(records)), rapid.ID).Draw(rt, "seqs")
			want := ledger.ContentTotals{}
			for text, needs := range held {
				before := len(needs)
				for _, seq := range seqs {
					delete(needs, seq)
				}
				if before > 0 && len(needs) == 0 {
					want.Pieces++
					want.Bytes += uint64(len(text))
				}
			}
			plan, err := l.PlanRedaction(t.Context(), setOf(seqs...), noRest)
			require.NoError(rt, err)
			require.Equal(rt, want, plan.ErasedContent)
			require.EqualValues(rt, len(seqs), plan.RecordCount+plan.AlreadyRedactedCount+plan.EventsWithoutContent)
			_, done := redact(t, l, seqs...)
			require.EqualValues(rt, plan.RecordCount, done)
			for text, needs := range held {
				require.Equal(rt, len(needs) > 0, content(t, l, text) != "", text)
			}
			require.NoError(rt, walk(t, l))
		}
	})
}

// citing returns a citation set that cites the given texts, and one chunk by its hash alone.
func citing(t testing.TB, texts []string) *record.Record {
	t.Helper()
	citations := []map[string]any{{"source_id": "s", "chunk_hash": fmt.Sprintf("sha256:%064x", 0), "weight": 1}}
	for _, text := range texts {
		citations = append(citations, map[string]any{"source_id": "s", "text": text, "weight": 0.5})
	}
	body, err := json.Marshal(map[string]any{"subject": "x", "citations": citations})
	require.NoError(t, err)
	r, err := record.Parse(record.KindCitationSet, body)
	require.NoError(t, err)
	return r
}

// If the store and the log disagree about a redaction, an audit reports damage.
func TestForgedRedactionsAreNamed(t *testing.T) {
	database := memory.New()
	l := open(t, store(t, database), config(t))
	for i := range 3 {
		post(t, l, ipc(t, "", fmt.Sprint(i)), "")
	}
	x, err := database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, x.SetRedaction(1, 0))
	require.ErrorContains(t, walk(t, l), "redaction: at entry 1: storage says that event 0 redacts this record, but that event does not come after the record")
	require.NoError(t, x.SetRedaction(1, 2))
	require.ErrorContains(t, walk(t, l), "redaction: at entry 1: storage says that event 2 redacts this record, but that event does not list the record")
	require.NoError(t, x.DeleteRedaction(1))
	require.NoError(t, walk(t, l))

	// Append an event that redacts record 1 without erasing its content.
	seqs := new(seqs.List)
	require.True(t, seqs.Append(1))
	change(t, l, record.NewRedaction("r", seqs), "")
	require.ErrorContains(t, walk(t, l), "redaction: at entry 4: the event redacts record 1, which is not redacted in storage")
	require.NoError(t, x.SetRedaction(1, 4))
	require.ErrorContains(t, walk(t, l), "at entry 1: not erased: the content is kept for record 1, which event 4 has redacted")
	w, err := l.PrepareRedaction(t.Context(), 1)
	require.NoError(t, err)
	for _, digest := range w.Digests {
		require.NoError(t, x.DeleteReference(digest, 1))
	}
	require.ErrorContains(t, walk(t, l), "at entry 1: not erased: no record needs the content, but it is still stored")
}

// noRest is a callback for PlanRedaction that does not pause.
func noRest() error { return nil }

// PlanRedaction calls rest before each record of the set, and regularly while it reads the records
// that need a piece of content. It looks up a widely shared piece only once, regardless of how many
// other pieces those records have.
func TestPlansRest(t *testing.T) {
	l := memoryLedger(t)
	const records = 3000
	postRuns(t, l, records)
	defer ledger.SetMaxPieceUses(3)()
	rests := 0
	_, err := l.PlanRedaction(t.Context(), setOf(1), func() error { rests++; return nil })
	require.NoError(t, err)
	require.Equal(t, 1+records/1024, rests)
	rests = 0
	_, err = l.PlanRedaction(t.Context(), setOf(1, 2, 3, 4, 5), func() error { rests++; return nil })
	require.NoError(t, err)
	require.Equal(t, 5+records/1024, rests)
	for at := range 2 {
		rests = 0
		_, err = l.PlanRedaction(t.Context(), setOf(1), func() error {
			if rests++; rests > at {
				return context.Canceled
			}
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
	}
}
