package rowstore

import (
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// The tests use these dimensions: testPlain has a row for each identity, testSeq a row for each seq,
// and testOnly a single row.
const (
	testPlain Dimension = VersionedBit
	testSeq   Dimension = 0x90
	testOnly  Dimension = 0x91
)

var testSchema = Schema{testPlain: len(Identity{}), testSeq: SeqSize, testOnly: 1}

func testRows(files vfs.FS) Config {
	return Config{
		FS: files, Dir: "index", Layout: "a layout of tests\n", Schema: &testSchema, CacheBytes: 8 << 20, MemTableBytes: 1 << 20,
		Logger: slog.New(slog.DiscardHandler), Exit: os.Exit,
	}
}

func openTestRows(t require.TestingT, files vfs.FS) *Store {
	s, err := Open(testRows(files))
	require.NoError(t, err)
	return s
}
