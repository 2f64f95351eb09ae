package pebble

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"colophon/storage"
)

func TestWritable(t *testing.T) {
	files := vfs.NewMem()
	db, l := one(t, files)
	require.NoError(t, l.Writable(t.Context()), "a file system that does not say")
	const gibibyte = 1024 * mebibyte
	for _, c := range []struct {
		free, total, mark uint64
		want              string
	}{
		{free: gibibyte, total: 100 * gibibyte},
		{free: gibibyte - 1, total: 100 * gibibyte, want: "1023 MiB free, 1024 MiB needed"},
		{free: 32 * mebibyte, total: 500 * mebibyte},
		{free: 12*mebibyte + 5, total: 500 * mebibyte, want: "12 MiB free, 32 MiB needed"},
		{free: 511 * mebibyte, total: 10 * gibibyte, want: "511 MiB free, 512 MiB needed"},
		{free: 512 * mebibyte, total: 10 * gibibyte},
		{free: 12 * mebibyte, total: gibibyte, mark: 64*mebibyte - 1, want: "12 MiB free, 64 MiB needed"},
		{free: 12 * mebibyte, total: 100 * gibibyte, mark: 1},
	} {
		db.minFree = c.mark
		files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: c.free, TotalBytes: c.total})
		err := l.Writable(t.Context())
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, storage.ErrNoSpace)
		require.ErrorContains(t, err, c.want)
	}
	require.NoError(t, l.Commit(t.Context(), storage.Head{}, batch(storage.Head{}, 1, 1)), "Commit does not ask")
}

type brokenFS struct{ vfs.FS }

var errBroken = errors.New("broken")

func (brokenFS) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, errBroken }

func TestWritableWithoutAnswer(t *testing.T) {
	_, l := one(t, brokenFS{vfs.NewMem()})
	err := l.Writable(t.Context())
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, storage.ErrNoSpace)
}
