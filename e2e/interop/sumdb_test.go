package interop_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// sumdbTiles reads tiles for the client of Go's checksum database. That client's tile paths differ
// from those of tlog-tiles only in that they contain the tile height.
type sumdbTiles struct{ *server }

// Height implements tlog.TileReader.
func (sumdbTiles) Height() int { return 8 }

// ReadTiles implements tlog.TileReader.
func (s sumdbTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	read := make([][]byte, len(tiles))
	for i, tile := range tiles {
		read[i] = s.public(strings.Replace(tile.Path(), "tile/8/", "tile/", 1))
	}
	return read, nil
}

// SaveTiles implements tlog.TileReader.
func (sumdbTiles) SaveTiles([]tlog.Tile, [][]byte) {}

// tree verifies the checkpoint with golang.org/x/mod, and returns the tree that it describes.
func (s *server) tree() (tree tlog.Tree) {
	s.t.Helper()
	opened, err := note.Open(s.public("checkpoint"), note.VerifierList(s.verifier()))
	require.NoError(s.t, err)
	require.Empty(s.t, opened.UnverifiedSigs)
	lines := strings.Split(opened.Text, "\n")
	require.Equal(s.t, []string{s.origin(), lines[1], lines[2], ""}, lines)
	tree.N, err = strconv.ParseInt(lines[1], 10, 64)
	require.NoError(s.t, err)
	root, err := base64.StdEncoding.DecodeString(lines[2])
	require.NoError(s.t, err)
	tree.Hash = tlog.Hash(root)
	return tree
}

// asHashes converts the hashes from a proof endpoint to the type that package tlog uses.
func asHashes(list [][]byte) []tlog.Hash {
	hashes := make([]tlog.Hash, len(list))
	for i, h := range list {
		hashes[i] = tlog.Hash(h)
	}
	return hashes
}

// The client of Go's checksum database accepts the server's checkpoints, tiles, and proofs.
func TestSumdb(t *testing.T) {
	s := start(t)
	var before tlog.Tree
	for _, size := range []uint64{1, 2, 255, 256, 257, 70_000} {
		s.grow(size)
		tree := s.tree()
		require.EqualValues(t, size, tree.N)
		hashes := tlog.TileHashReader(tree, sumdbTiles{s}) // verifies the tiles that it reads
		root, err := tlog.TreeHash(tree.N, hashes)
		require.NoError(t, err)
		require.Equal(t, tree.Hash, root)
		for _, seq := range []int64{0, tree.N / 2, tree.N - 1, rand.Int64N(tree.N)} {
			s.checkRecord(tree, hashes, seq)
		}
		if before.N > 0 {
			path, err := tlog.ProveTree(tree.N, before.N, hashes)
			require.NoError(t, err)
			require.Equal(t, []tlog.Hash(path), asHashes(s.hashes("consistency?first="+strconv.FormatInt(before.N, 10))))
			require.NoError(t, tlog.CheckTree(path, tree.N, tree.Hash, before.N, before.Hash))
			require.Error(t, tlog.CheckTree(path, tree.N, before.Hash, before.N, tree.Hash))
		}
		before = tree
	}
	// These are the tiles that the tlog-tiles specification lists for a tree of 70,000 leaves.
	for path, width := range map[string]int{"0/000": 256, "0/272": 256, "0/273.p/112": 112, "1/000": 256, "1/001.p/17": 17, "2/000.p/1": 1} {
		require.Len(t, s.public("tile/"+path), 32*width, path)
	}
}

// checkRecord requires that the inclusion proof of an entry is the same whether it is computed from
// tiles, returned by the endpoint, or read from the tlog-proof file.
func (s *server) checkRecord(tree tlog.Tree, hashes tlog.HashReader, seq int64) {
	s.t.Helper()
	path, err := tlog.ProveRecord(tree.N, seq, hashes)
	require.NoError(s.t, err)
	number := strconv.FormatInt(seq, 10)
	require.Equal(s.t, []tlog.Hash(path), asHashes(s.hashes("inclusion?seq="+number)))
	var file proof.TLogProof
	require.NoError(s.t, file.Unmarshal(s.do("GET", "/v1/ledgers/default/records/"+number+"/receipt", nil, 200, "Accept", "text/plain")))
	require.EqualValues(s.t, seq, file.Index)
	require.Equal(s.t, s.public("checkpoint"), file.Checkpoint)
	require.Equal(s.t, len(path), len(file.Hashes))
	for i, h := range file.Hashes {
		path[i] = h
	}
	require.NoError(s.t, tlog.CheckRecord(path, tree.N, tree.Hash, seq, tlog.RecordHash(file.ExtraData)))
	require.Error(s.t, tlog.CheckRecord(path, tree.N, tree.Hash, seq, tlog.RecordHash(append(file.ExtraData, 0))))
}
