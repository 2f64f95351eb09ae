package interop_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

// sizes lists the sizes at which a growing log is checked. At some of them, a tile becomes full, on
// one level or on two, or the path of a tile gets a second element. No size is 0, because a log's
// first entry records the creation of the ledger.
var sizes = []uint64{1, 2, 255, 256, 257, 511, 512, 600, 65_535, 65_536, 65_537, 70_000, 256_256, 256_300}

// patience is the time limit for each run of a tool, because some tools wait forever for missing
// data.
const patience = 2 * time.Minute

// verifier returns the default ledger's key as a note.Verifier.
func (s *server) verifier() note.Verifier {
	s.t.Helper()
	v, err := note.NewVerifier(s.key)
	require.NoError(s.t, err)
	return v
}

// fetcher returns a client that reads a public log over HTTP without credentials.
func fetcher(t testing.TB, log *url.URL) *client.HTTPFetcher {
	t.Helper()
	f, err := client.NewHTTPFetcher(log, nil)
	require.NoError(t, err)
	return f
}

// leafHashes returns the leaf hashes of the entries in a bundle.
func leafHashes(bundle []byte) ([][]byte, error) {
	var entries api.EntryBundle
	if err := entries.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(entries.Entries))
	for i, entry := range entries.Entries {
		hashes[i] = rfc6962.DefaultHasher.HashLeaf(entry)
	}
	return hashes, nil
}

// check runs Tessera's fsck on the whole log.
func (s *server) check(log fsck.Fetcher) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	// With only one worker, fsck can deadlock.
	return fsck.New(s.origin(), s.verifier(), log, leafHashes, fsck.Opts{N: 4}).Check(ctx)
}

// Tessera's fsck and its client accept a growing log at every size and find that its checkpoints
// are consistent. They also accept the copy that Tessera's mirror makes at each size, and the copy
// that the server publishes.
func TestTessera(t *testing.T) {
	s := start(t)
	log := fetcher(t, s.log())
	tracker, err := client.NewLogStateTracker(t.Context(), log.ReadTile, nil, s.verifier(), s.origin(), client.UnilateralConsensus(log.ReadCheckpoint))
	require.NoError(t, err)
	copied := t.TempDir()
	for _, size := range sizes {
		s.grow(size)
		t.Run(strconv.FormatUint(size, 10), func(t *testing.T) {
			require.NoError(t, s.check(log))
			before := tracker.Latest().Size
			_, path, _, err := tracker.Update(t.Context())
			require.NoError(t, err)
			require.Equal(t, size, tracker.Latest().Size)
			if before < size {
				require.Equal(t, s.hashes("consistency?first="+strconv.FormatUint(before, 10)), path)
			}
			s.wantSameProofs(log, size)
			s.mirror(copied, size)
			require.NoError(t, s.check(client.FileFetcher{Root: copied}))
			require.NoError(t, s.check(client.FileFetcher{Root: s.published()}))
		})
	}
	// Proofs for earlier trees are still the same, because the partial tiles of those trees remain
	// available.
	for _, size := range sizes {
		s.wantSameProofs(log, size)
	}
}

// published waits until the published copy has the same checkpoint as the server, and returns the
// folder that contains the copy of the log.
func (s *server) published() string {
	s.t.Helper()
	folder := filepath.Join(s.copied, "v1", "ledgers", "default", "log")
	require.Eventually(s.t, func() bool {
		checkpoint, err := os.ReadFile(filepath.Join(folder, "checkpoint"))
		return err == nil && bytes.Equal(checkpoint, s.public("checkpoint"))
	}, patience, 10*time.Millisecond)
	return folder
}

// wantSameProofs requires that the endpoints return the same proofs that Tessera's builder computes
// from tiles, for some leaves and earlier trees.
func (s *server) wantSameProofs(log *client.HTTPFetcher, size uint64) {
	s.t.Helper()
	builder, err := client.NewProofBuilder(s.t.Context(), size, log.ReadTile)
	require.NoError(s.t, err)
	of := "&tree_size=" + strconv.FormatUint(size, 10)
	for _, seq := range []uint64{0, size / 2, size - 1, rand.Uint64N(size)} {
		path, err := builder.InclusionProof(s.t.Context(), seq)
		require.NoError(s.t, err)
		require.Equal(s.t, path, s.hashes("inclusion?seq="+strconv.FormatUint(seq, 10)+of))
	}
	to := "&second=" + strconv.FormatUint(size, 10)
	for _, first := range []uint64{1, (size + 1) / 2, size, 1 + rand.Uint64N(size)} {
		path, err := builder.ConsistencyProof(s.t.Context(), first, size)
		require.NoError(s.t, err)
		require.Equal(s.t, path, s.hashes("consistency?first="+strconv.FormatUint(first, 10)+to))
	}
}

// mirror updates the copy in a folder with Tessera's mirror. It requires that the copy then has the
// same checkpoint as the server, and that this checkpoint has the given size.
func (s *server) mirror(folder string, size uint64) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	// The mirror never exits if it has more workers than there are new entries.
	command := exec.CommandContext(ctx, tools.mirror, "-storage_dir", folder, "-source_url", s.log().String(), "-num_workers", "1")
	out, err := command.CombinedOutput()
	require.NoError(s.t, err, "%s", out)
	checkpoint, err := os.ReadFile(folder + "/checkpoint")
	require.NoError(s.t, err)
	require.Equal(s.t, s.public("checkpoint"), checkpoint)
	require.Contains(s.t, string(checkpoint), "\n"+strconv.FormatUint(size, 10)+"\n")
}

// tampered is a log in which the last byte of some resources is changed.
type tampered struct {
	fsck.Fetcher
	checkpoint, bundle bool
	level              int // level of the changed tile; -1 if no tile is changed
}

func flipped(tamper bool, b []byte, err error) ([]byte, error) {
	if tamper && err == nil {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
	}
	return b, err
}

// ReadCheckpoint implements fsck.Fetcher.
func (f tampered) ReadCheckpoint(ctx context.Context) ([]byte, error) {
	b, err := f.Fetcher.ReadCheckpoint(ctx)
	return flipped(f.checkpoint, b, err)
}

// ReadTile implements fsck.Fetcher.
func (f tampered) ReadTile(ctx context.Context, level, index uint64, width uint8) ([]byte, error) {
	b, err := f.Fetcher.ReadTile(ctx, level, index, width)
	return flipped(int(level) == f.level && index == 0, b, err)
}

// ReadEntryBundle implements fsck.Fetcher.
func (f tampered) ReadEntryBundle(ctx context.Context, index uint64, width uint8) ([]byte, error) {
	b, err := f.Fetcher.ReadEntryBundle(ctx, index, width)
	return flipped(f.bundle && index == 1, b, err)
}

// Tessera's fsck rejects a log in which anything has been changed.
func TestTesseraSeesTampering(t *testing.T) {
	s := start(t)
	s.grow(600)
	log := fetcher(t, s.log())
	require.NoError(t, s.check(tampered{Fetcher: log, level: -1}))
	for name, f := range map[string]tampered{
		"checkpoint": {log, true, false, -1}, "bundle": {log, false, true, -1}, "leaf hashes": {log, false, false, 0}, "hashes above": {log, false, false, 1},
	} {
		t.Run(name, func(t *testing.T) { require.Error(t, s.check(f)) })
	}
}
