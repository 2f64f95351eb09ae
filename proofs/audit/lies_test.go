package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// at returns a copy of the log whose last event has the given time.
func (m *memory) at(t testing.TB, text string) *memory {
	t.Helper()
	seq := len(m.entries) - 1
	body := string(m.entries[seq][proofs.HashSize:])
	before, after, found := strings.Cut(body, `"time":"`)
	require.True(t, found)
	return m.altered(t, seq, []byte(before+`"time":"`+text+after[strings.IndexByte(after, '"'):]))
}

// The time of an event may be at most a day ahead of the auditor's clock. If Options.Now is zero,
// the walk does not compare times with a clock.
func TestTimesInTheFuture(t *testing.T) {
	m := newMemory(t, 20)
	now := time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	for text, wrong := range map[string]bool{
		"9999-12-31T23:59:59.999999Z": true, "2026-01-04T00:00:00.000001Z": true,
		"2026-01-04T00:00:00.000000Z": false, "2026-01-02T23:00:00.000000Z": false,
	} {
		options := optionsFor(m)
		for _, options.Now = range []time.Time{{}, now} {
			report, _, err := ExtendWalk(t.Context(), published{m.at(t, text)}, options, ExtendOptions{History: newMemoryHistory()})
			require.NoError(t, err)
			if !wrong || options.Now.IsZero() {
				require.Nil(t, report.Damage, text)
				continue
			}
			require.NotNil(t, report.Damage, text)
			require.Equal(t, []any{DamageKindEvent, uint64(19)}, []any{report.Damage.Kind, report.Damage.Seq})
			require.Contains(t, report.Damage.Message, "this machine's clock shows 2026-01-03T00:00:00.000000Z")
		}
	}
}

// ExtendWalk reports a signed checkpoint of an empty log as damage, because the first event of
// every log creates its ledger.
func TestEmptyLogs(t *testing.T) {
	m := newMemory(t, 0)
	damage := newAuditor().walk(t, m).Damage
	require.NotNil(t, damage)
	require.Equal(t, DamageKindCheckpoint, damage.Kind)
	require.Contains(t, damage.Message, "a log is never empty")
}

// surplus is a log whose Entries yields an error after the last entry.
type surplus struct {
	published
	err error
}

func (s surplus) Entries(ctx context.Context, from uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for entry, err := range s.published.Entries(ctx, from) {
			if !yield(entry, err) {
				return
			}
		}
		yield(nil, s.err)
	}
}

// If the source yields an error of type *Damage after the last entry, the walk reports that damage.
func TestEntriesAfterTheLast(t *testing.T) {
	m := newMemory(t, 20)
	wrong := &Damage{Kind: DamageKindEntry, Seq: 20, Message: "there are more than 20"}
	report, _, err := ExtendWalk(t.Context(), surplus{published{m}, wrong}, optionsFor(m), ExtendOptions{History: newMemoryHistory()})
	require.NoError(t, err)
	require.Equal(t, wrong, report.Damage)
}

// A source must be registered, in the same walk or an earlier one, before it is revoked. It may be
// revoked more than once, because two clients may revoke it at the same time.
func TestSourcesAreRegisteredBeforeTheyAreRevoked(t *testing.T) {
	e := record.EventContext{Actor: "lab", Ledger: "default"}
	register := func(id string) []byte {
		v, err := record.ParseSourceRegistration(id, []byte(`{}`))
		require.NoError(t, err)
		return v.AppendBodyPrefix(nil, e)
	}
	revoke := func(id string) []byte {
		v, err := record.ParseSourceRevocation(id, nil)
		require.NoError(t, err)
		return v.AppendBodyPrefix(nil, e)
	}
	for name, c := range map[string]struct {
		events [][]byte
		wrong  uint64 // seq of the event that is wrong, or 0 if none is
	}{
		"registered and revoked":       {[][]byte{register("x"), revoke("x")}, 0},
		"by two at once":               {[][]byte{register("x"), revoke("x"), revoke("x")}, 0},
		"once more":                    {[][]byte{register("x"), revoke("x"), register("x"), revoke("x")}, 0},
		"never registered":             {[][]byte{register("x"), revoke("y")}, 301},
		"registered later":             {[][]byte{revoke("x"), register("x")}, 300},
		"registered, and another too":  {[][]byte{register("y"), register("x"), revoke("x"), revoke("z")}, 303},
		"a name that begins like that": {[][]byte{register("x"), revoke("xx")}, 301},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, 300)
			once, steps := newAuditor(), newAuditor()
			require.Nil(t, steps.walk(t, m).Damage)
			var step *Damage
			for _, body := range c.events {
				m.add(slices.Clone(body))
				m.head.Size++
				m.seal(t)
				if step == nil {
					step = steps.walk(t, m).Damage
				}
			}
			for _, damage := range []*Damage{step, once.walk(t, m).Damage, walked(t, m).Damage} {
				if c.wrong == 0 {
					require.Nil(t, damage)
					continue
				}
				require.NotNil(t, damage)
				require.Equal(t, []any{DamageKindEvent, c.wrong}, []any{damage.Kind, damage.Seq}, "%v", damage)
			}
		})
	}
}

// The Tally does not depend on the number of walks that covered the log.
func TestTalliesCoverTheWholeLog(t *testing.T) {
	m, names := everyKind(t)
	e := record.EventContext{Actor: "lab", Ledger: "default"}
	for i, state := range []string{"failed", "stale", "live", "quarantined", "live", "failed"} {
		v, err := record.ParseStateChange(uint64(1+i%2), []byte(fmt.Sprintf(`{"state":%q,"reason":"r"}`, state)))
		require.NoError(t, err)
		m.add(v.AppendBodyPrefix(nil, e))
		names = append(names, state)
	}
	r, err := ledgerLimits.ParseRecord(record.KindPathFingerprint, []byte(`{"run_id":"chosen","project":"p","route":[]}`))
	require.NoError(t, err)
	key := testKey(1)
	m.add(r.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: &key}))
	names = append(names, "a key that was chosen")
	m.head.Size = uint64(len(m.entries))
	m.seal(t)
	once := newAuditor()
	require.Nil(t, once.walk(t, m).Damage)
	tally := once.at.Tally
	require.Equal(t, uint64(1), tally.ChosenKeyCount)
	require.Equal(t, uint64(len(names)), tally.StatesAsOfSize)
	require.Equal(t, []uint64{16, 5, 2, 11, 10, 1, 0, 0}, []uint64{tally.Records, tally.MismatchedRecords, tally.Refusals, tally.StatefulRecords, tally.LiveRecords(), tally.FailedRecords, tally.StaleRecords, tally.QuarantinedRecords})
	require.Equal(t, "2026-01-02T03:04:05.000000Z", tally.FirstEventTime)
	for _, sizes := range [][]int{{1}, {17}, {len(names) - 1}, {len(names) - 5, len(names) - 4, len(names) - 2}} {
		a := newAuditor()
		for _, size := range sizes {
			b := beginning(t, m, size)
			if size < slices.Index(names, "rotation") {
				b.signer = testSigner(t, testOrigin, 1)
				b.seal(t)
			}
			require.Nil(t, a.walk(t, b).Damage)
		}
		a.seen = nil
		require.Nil(t, a.walk(t, m).Damage)
		require.Equal(t, tally, a.at.Tally, "%v", sizes)
	}
	text, err := json.Marshal(tally)
	require.NoError(t, err)
	var again Tally
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, tally, again)
}
