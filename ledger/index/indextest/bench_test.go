package indextest

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/index"
	"colophon/ledger/query"
	"colophon/ledger/record"
)

// experiment returns the body of the n-th event in a series of experiments. Each experiment
// runs 400 inputs three times on three models, one of which always returns the same output.
func experiment(t tester, n int) string {
	t.Helper()
	const inputs, models, repeats = 400, 3, 3
	input := n/(inputs*models*repeats)*inputs + n%inputs
	model := n / inputs % models
	output := fmt.Sprintf("because %d %d", input, model)
	if model > 0 {
		output = fmt.Sprintf("because %d", n)
	}
	return posted(t, record.KindIPCRecord, fmt.Sprintf(
		`{"run_id":"run-%d","payload":{"seed":42,"q":"why %d?"},"system_prompt":"Be kind.","output":%q,"model":"model-%d","temperature":0.7,
		"max_tokens":512,"labels":{"experiment":"e-%d"},"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
		n, input, output, model, n/(inputs*models*repeats), n%100, n%300))
}

// BenchmarkFold builds the index of 100,000 IPC records on disk.
func BenchmarkFold(b *testing.B) {
	const events = 100_000
	log := newJournal(b, "default")
	log.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
	for n := 0; n < events; n += 1000 {
		var bodies []string
		for i := range 1000 {
			bodies = append(bodies, experiment(b, n+i))
		}
		log.append(bodies...)
	}
	bytes := 0
	for _, entry := range log.entries {
		bytes += len(entry)
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		s, err := query.OpenIndex(index.Config{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(b, err)
		log.catchUp(follow(b, s, log))
		require.NoError(b, s.Close())
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
