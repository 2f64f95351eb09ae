package indextest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record"
)

// layoutDigests are digests of all keys and values of the indexes of fixed logs. They change
// with what the index stores; then the number of the layout must change. Hashes of events are
// among the values, so the digests also change with what events contain.
var layoutDigests = map[string]string{
	"random 0": "f43364b455bab42d", "random 1": "98f9911a45043fa4", "random 2": "f3db12fd8fc3b7ac", "random 3": "6b554cbec88a822f",
	"citation-sets": "06fbeb8a23271168", "generations": "6351b8a4f185a29d", "run-dags": "f703f173d1d1d01e", "story-paths": "c6b7ef6c06ce9289",
}

func digestOf(lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

// The index of random ledgers with every kind of event has this layout.
func TestLayoutOfRandomLedgers(t *testing.T) {
	for seed, name := range [...]string{"random 0", "random 1", "random 2", "random 3"} {
		bodies := rapid.Custom(func(t *rapid.T) []string {
			bodies := []string{string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil))}
			for range 150 {
				bodies = append(bodies, drawEvent(t, uint64(len(bodies))))
			}
			return bodies
		}).Example(seed)
		j := newJournal(t, "default")
		j.append(bodies...)
		require.Equal(t, layoutDigests[name], digestOf(j.refold()), name)
	}
}

// So has the index of real records.
func TestLayoutOfRealInput(t *testing.T) {
	for _, name := range [...]string{"citation-sets", "generations", "run-dags", "story-paths"} {
		j := newJournal(t, "default")
		j.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		j.append(realBodies(t, name)...)
		require.Equal(t, layoutDigests[name], digestOf(j.refold()), name)
	}
}

// realBodies returns the bodies of the events that real records become. It skips the test if
// they are absent.
func realBodies(t *testing.T, name string) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", name+".ndjson.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 8<<20)
	var bodies []string
	for lines.Scan() {
		line, err := record.ParseLine(lines.Bytes())
		require.NoError(t, err)
		bodies = append(bodies, string(line.Record.AppendBody(nil, poster)))
		line.Record.Release()
	}
	require.NoError(t, lines.Err())
	return bodies
}
