package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/ledger/record/formats"
)

// phoenixRow has the columns that pandas writes to a Parquet file for a dataframe of Phoenix spans.
type phoenixRow struct {
	Name     string           `parquet:"name"`
	Kind     *string          `parquet:"span_kind,optional"`
	Start    time.Time        `parquet:"start_time,timestamp(microsecond)"`
	SpanID   string           `parquet:"context.span_id"`
	TraceID  string           `parquet:"context.trace_id"`
	Model    *string          `parquet:"attributes.llm.model_name,optional"`
	Messages []phoenixMessage `parquet:"attributes.llm.input_messages,list"`
	Output   *string          `parquet:"attributes.output.value,optional"`
	Tokens   *float64         `parquet:"attributes.llm.token_count.prompt,optional"`
}

type phoenixMessage struct {
	Role    string `parquet:"message.role"`
	Content string `parquet:"message.content"`
}

func TestParquet(t *testing.T) {
	llm, chain, model, output, tokens := "LLM", "CHAIN", "m", "Because.", 10.0
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	rows := []phoenixRow{
		{"llm", &llm, at, "0123456789abcdef", "0af7651916cd43dd8448eb211c80319c", &model, []phoenixMessage{{"system", "Be brief."}, {"user", "Why?"}}, &output, &tokens},
		{"chain", &chain, at, "0123456789abcde0", "0af7651916cd43dd8448eb211c80319c", nil, nil, nil, nil},
	}
	name := filepath.Join(t.TempDir(), "spans.parquet")
	require.NoError(t, parquet.WriteFile(name, rows))

	in := &input{name: name, maxLine: 1 << 20}
	var texts []string
	in.parquetRows(func(l line, err error) bool {
		require.NoError(t, err)
		texts = append(texts, string(l.text))
		return true
	})
	require.Len(t, texts, 2)
	entries, err := formats.Phoenix.Convert([]byte(texts[0]), formats.Options{Limits: record.DefaultLimits()})
	require.NoError(t, err, texts[0])
	require.Len(t, entries, 1)
	require.JSONEq(t, `{"labels":{"name":"llm","span_id":"0123456789abcdef","trace_id":"0af7651916cd43dd8448eb211c80319c"},"model":"m","output":"Because.",
		"payload":{"messages":[{"content":"Why?","role":"user"}]},"run_id":"0af7651916cd43dd8448eb211c80319c-0123456789abcdef","system_prompt":"Be brief.",
		"timestamp":"2026-01-02T03:04:05.678000Z","usage":{"input_tokens":10}}`, string(entries[0].Record), texts[0])

	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	tally, err := Run(t.Context(), nil, Options{MaxLineBytes: 1 << 20, Native: &NativeOptions{Format: formats.Phoenix, DryRun: true}}, []string{name})
	require.NoError(t, err)
	require.Equal(t, 1, tally.Total().Accepted)

	// If a file is damaged, the import neither panics nor fails as a whole.
	for at := 4; at < len(whole); at += 7 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x55
		require.NoError(t, os.WriteFile(name, damaged, 0o600))
		_, err := Run(t.Context(), nil, Options{MaxLineBytes: 1 << 20, Native: &NativeOptions{Format: formats.Phoenix, DryRun: true}}, []string{name})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(name, whole[:len(whole)/2], 0o600))
	tally, err = Run(t.Context(), nil, Options{MaxLineBytes: 1 << 20, Native: &NativeOptions{Format: formats.Phoenix, DryRun: true}}, []string{name})
	require.NoError(t, err)
	require.Equal(t, 1, tally.Total().Refused)
	require.Contains(t, tally.Failures[0], "the Parquet file cannot be read beyond this row")
}
