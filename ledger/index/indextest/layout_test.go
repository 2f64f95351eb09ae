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

	"colophon/ledger/record"
)

// layoutDigests holds a digest of all keys and values in the index of each fixed log. The digests
// change if the format of the index changes, and then the layout number must change too. They also
// change if the contents of events change, because event hashes are among the values.
var layoutDigests = map[string]string{
	"random 0": "ee5baf1d99ba847e", "random 1": "02d1de106d2135e0", "random 2": "09e9be98b74c5076", "random 3": "e138e61febb891bf",
	"citation-sets": "b45bbd2231e444c2", "generations": "351cea526061fc0d", "run-dags": "74ad02145b425b23", "story-paths": "d3488898a64207f0",
}

func digestOf(lines []string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}

// The indexes of random ledgers with every kind of event have the expected digests.
func TestLayoutOfRandomLedgers(t *testing.T) {
	for seed, name := range [...]string{"random 0", "random 1", "random 2", "random 3"} {
		j := newJournal(t, "default")
		j.append(randomBodies(seed, 150)...)
		require.Equal(t, layoutDigests[name], digestOf(j.refold()), name)
	}
}

// The index of real records has the expected digest.
func TestLayoutOfRealInput(t *testing.T) {
	for _, name := range [...]string{"citation-sets", "generations", "run-dags", "story-paths"} {
		j := newJournal(t, "default")
		j.append(string(record.AppendLedgerCreated(nil, poster, "example.org/log", "key", nil)))
		j.append(realBodies(t, name)...)
		require.Equal(t, layoutDigests[name], digestOf(j.refold()), name)
	}
}

// realBodies returns event bodies for the real records in the named data set. It skips the test if
// the data set is absent.
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
		line, err := record.ParseBatchLine(lines.Bytes())
		require.NoError(t, err)
		bodies = append(bodies, string(line.Record.AppendBodyPrefix(nil, poster)))
		line.Record.Release()
	}
	require.NoError(t, lines.Err())
	return bodies
}
