package pack

import (
	"bufio"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs/pack/browser"
)

// sharedData is the folder of real input data outside the repository. Tests that need it are
// skipped if it does not exist.
var sharedData = filepath.Join("..", "..", "..", "shared", "data")

// realLog returns a log with every nth record of the named file, and the seqs of these records.
func realLog(t *testing.T, name string, n int) (l *log, seqs []uint64) {
	t.Helper()
	f, err := os.Open(filepath.Join(sharedData, name+".ndjson.gz"))
	if os.IsNotExist(err) {
		t.Skip("real input is absent")
	}
	require.NoError(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 8<<20)
	l = newLog(t, 1)
	for i := 0; lines.Scan(); i++ {
		if i%n == 0 {
			l.line(lines.Bytes())
			seqs = append(seqs, uint64(len(l.entries)-1))
		}
	}
	require.NoError(t, lines.Err())
	return l, seqs
}

// Verify and the page recompute all hashes of real records, including records with wrong
// claims.
func TestRealRecordsVerify(t *testing.T) {
	for _, name := range []string{"generations", "generations-tampered", "run-dags", "citation-sets", "story-paths"} {
		t.Run(name, func(t *testing.T) {
			l, seqs := realLog(t, name, 17)
			p := l.pack(nil, seqs...)
			report, err := p.Verify(l.signer.Verifier())
			require.NoError(t, err)
			require.Equal(t, len(seqs), report.RecomputedRecords)
			shown := browser.Start(t).NewPage(t)
			open(t, shown, page(t, p))
			require.Equal(t, "verified", checkWithKey(t, shown, p.VerifierKeys[0]), shown.Text(t, ".fails"))
		})
	}
}
