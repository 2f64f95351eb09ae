package indextest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/ledger/event"
	"colophon/ledger/index"
	"colophon/ledger/index/records"
	"colophon/ledger/index/rowstore"
	"colophon/ledger/query"
	"colophon/ledger/record"
)

var (
	dimensionSpan = regexp.MustCompile(`([0-9a-f]{2})(?: – ([0-9a-f]{2}))?`)
)

// documentedDimensions returns the dimensions that docs/index.md lists.
func documentedDimensions(t *testing.T) map[rowstore.Dimension]bool {
	text, err := os.ReadFile("../../../docs/index.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Rows\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	all := make(map[rowstore.Dimension]bool)
	for line := range strings.Lines(table) {
		cell, _, is := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !is || !dimensionSpan.MatchString(cell) || strings.Trim(cell, "0123456789abcdef –,") != "" {
			continue
		}
		for _, span := range dimensionSpan.FindAllStringSubmatch(cell, -1) {
			first, err := strconv.ParseUint(span[1], 16, 8)
			require.NoError(t, err)
			last := first
			if span[2] != "" {
				last, err = strconv.ParseUint(span[2], 16, 8)
				require.NoError(t, err)
			}
			for d := first; d <= last; d++ {
				all[rowstore.Dimension(d)] = true
			}
		}
	}
	return all
}

// The random ledgers for crash tests and model tests contain every kind of event, every kind
// of row, and every name by which records are found.
func TestRandomLedgersHaveEverything(t *testing.T) {
	kinds, dimensions, postings := make(map[record.Kind]bool), make(map[rowstore.Dimension]bool), make(map[string]bool)
	for seed := range 12 {
		log := newJournal(t, "default")
		log.append(randomBodies(seed, 150)...)
		var decoder event.Decoder
		for _, entry := range log.entries {
			e, err := decoder.Decode(entry)
			require.NoError(t, err)
			kinds[e.Kind] = true
		}
		s := openTest(t, testConfig(vfs.NewMem()))
		log.catchUp(follow(t, s, log))
		for _, line := range dump(t, s) {
			key, _, is := strings.Cut(strings.TrimPrefix(line, "default "), " = ")
			if !is || len(key) < 2 {
				continue
			}
			d, err := strconv.ParseUint(key[:2], 16, 8)
			require.NoError(t, err)
			dimensions[rowstore.Dimension(d)] = true
			if rowstore.Dimension(d) == records.PostingsDimension {
				postings[key[2:2+2*len(rowstore.Identity{})]] = true
			}
		}
		require.NoError(t, s.Close())
	}
	var missing []string
	for _, kind := range record.EventKinds {
		if !kinds[kind] {
			missing = append(missing, "event "+string(kind))
		}
	}
	wanted := documentedDimensions(t)
	for d, bytes := range index.SchemaOf(query.Families()) {
		require.True(t, bytes == 0 || wanted[rowstore.Dimension(d)], "docs/index.md does not list dimension %02x", d)
	}
	for d := range wanted {
		if !dimensions[d] {
			missing = append(missing, fmt.Sprintf("row %02x", d))
		}
	}
	for _, found := range [][2]string{
		{"kind", "note"}, {"kind", "content_redacted"}, {"topic", "review"}, {"topic", "step"},
		{"state", "failed"}, {"state", "stale"}, {"state", "quarantined"},
		{"failure_stage", "none"}, {"failure_stage", "answer"}, {"failure_stage", "unknown"}, {"audit_mode", "STRICT"}, {"audit_mode", "HYBRID"},
		{"shape", "quote"}, {"shape", "reject"}, {"verifier_method", "exact_quote"}, {"document_root", zeros},
		{"flag", "mismatch"}, {"flag", "inconsistent"}, {"flag", "unregistered_source"}, {"flag", "other_base"},
		{"incomplete", "output"}, {"incomplete", "seed"}, {"incomplete", "temperature"}, {"incomplete", "max_tokens"}, {"incomplete", "system_prompt"},
		{"model", "m1"}, {"label:step", "a"}, {"run_id", "r1"}, {"subject", "x"}, {"project", "p"}, {"build", "b3"}, {"producer", "p1"},
		{"source_id", "s1"}, {"stage:mine", zeros},
	} {
		id := rowstore.IdentityOf([]byte(found[0]), []byte(found[1]))
		if !postings[fmt.Sprintf("%x", id[:])] {
			missing = append(missing, found[0]+"="+found[1])
		}
	}
	require.Empty(t, missing, "no random ledger has these kinds of events, rows, or names")
}
