package verify

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// madeLog is an in-memory log whose leaves contain the log's name.
type madeLog struct {
	tree  *proofs.Tree
	tiles map[[2]uint64][]byte
}

func makeLog(name string, size int) *madeLog {
	tree, err := proofs.OpenTree(0, nil, nil)
	if err != nil {
		panic(err)
	}
	l := &madeLog{tree, make(map[[2]uint64][]byte)}
	for i := range size {
		tree.Append(proofs.LeafHash(fmt.Appendf(nil, "%s %d", name, i)))
	}
	for _, tile := range tree.TakeDirtyTiles() {
		l.tiles[[2]uint64{uint64(tile.Level), tile.Index}] = tile.Hashes
	}
	return l
}

func (l *madeLog) Tile(level uint8, index uint64) ([]byte, error) {
	return l.tiles[[2]uint64{uint64(level), index}], nil
}

func sign(t *testing.T, key *proofs.Signer, l *madeLog) []byte {
	t.Helper()
	note, err := key.Sign(proofs.Checkpoint{Origin: key.Origin(), Size: l.tree.Size(), Root: l.tree.Root()})
	require.NoError(t, err)
	return note
}

// PublishedCopy.verifiers accepts a checkpoint signed with any key of the log if the copy's tree
// extends the checkpoint's tree, and rejects all others.
func TestCopy(t *testing.T) {
	const origin = "log.example/a"
	first, err := proofs.GenerateKey().Signer(origin)
	require.NoError(t, err)
	second, err := proofs.GenerateKey().Signer(origin)
	require.NoError(t, err)
	handover, err := proofs.SignHandover(first, second)
	require.NoError(t, err)
	history := proofs.NewKeyHistory(first.Verifier())
	require.NoError(t, history.Add(500, proofs.KeyChange{Step: proofs.KeyStepIntroduced, Previous: first.Verifier(), Next: second.Verifier(), HandoverNote: handover}))
	require.NoError(t, history.Add(550, proofs.KeyChange{Step: proofs.KeyStepRetired, Previous: first.Verifier(), Next: second.Verifier()}))
	log := makeLog("a", 600)
	c := &PublishedCopy{Location: "here", KeyHistory: history, Checkpoint: sign(t, second, log), ReadTile: log.Tile}

	keys, err := c.verifiers([]*proofs.Verifier{first.Verifier()})
	require.NoError(t, err)
	for name, check := range map[string]struct {
		note []byte
		want error
	}{
		"the beginning, signed with the first key": {sign(t, first, makeLog("a", 300)), nil},
		"the same tree": {sign(t, second, log), nil},
		"another tree, signed with the first key":  {sign(t, first, makeLog("b", 300)), ErrNotPrefix},
		"another tree, signed with the newest key": {sign(t, second, makeLog("b", 600)), ErrNotPrefix},
	} {
		_, err := proofs.OpenCheckpoint(check.note, keys...)
		require.ErrorIs(t, err, check.want, name)
	}
	_, err = proofs.OpenCheckpoint(sign(t, second, makeLog("a", 601)), keys...)
	require.ErrorContains(t, err, "try again when the copy has caught up")

	_, err = c.verifiers([]*proofs.Verifier{second.Verifier()})
	require.NoError(t, err)
	stranger, err := proofs.GenerateKey().Signer(origin)
	require.NoError(t, err)
	_, err = c.verifiers([]*proofs.Verifier{stranger.Verifier()})
	require.ErrorIs(t, err, proofs.ErrWrongKey)

	// The copy's checkpoint must be signed with the newest key, and its root must be the root of
	// the copy's tiles.
	old := &PublishedCopy{Location: "here", KeyHistory: history, Checkpoint: sign(t, first, log), ReadTile: log.Tile}
	_, err = old.verifiers([]*proofs.Verifier{first.Verifier()})
	require.ErrorIs(t, err, proofs.ErrWrongKey)
	other := &PublishedCopy{Location: "here", KeyHistory: history, Checkpoint: sign(t, second, makeLog("b", 600)), ReadTile: log.Tile}
	_, err = other.verifiers([]*proofs.Verifier{first.Verifier()})
	require.ErrorContains(t, err, "audit the copy")
}
