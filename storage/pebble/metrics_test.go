package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// sized is a file system that reports the given total and free space, in bytes.
type sized struct {
	vfs.FS
	total, free uint64
}

func (s sized) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{TotalBytes: s.total, AvailBytes: s.free}, nil
}

func TestMetricsOfFreeSpace(t *testing.T) {
	for name, c := range map[string]struct {
		fs         vfs.FS
		minFree    uint64
		free, mark uint64
	}{
		"default mark": {sized{vfs.NewMem(), 10 << 30, 7 << 30}, 0, 7 << 30, 512 << 20},
		"own mark":     {sized{vfs.NewMem(), 10 << 30, 7 << 30}, 2 << 30, 7 << 30, 2 << 30},
		"unknown":      {vfs.NewMem(), 2 << 30, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.Context(), Config{Dir: "db", FS: c.fs, MinFreeBytes: c.minFree})
			require.NoError(t, err)
			m, err := db.Metrics()
			require.NoError(t, err)
			require.Equal(t, c.free, m.FreeBytes)
			require.Equal(t, c.mark, m.MinFreeBytes)
			require.NoError(t, db.Close())
		})
	}
}
