package proofs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

func TestTilePaths(t *testing.T) {
	for path, want := range map[string]TilePath{
		"tile/0/000":                                   {Width: 256},
		"tile/63/000.p/1":                              {Level: 63, Width: 1},
		"tile/1/x001/x234/067":                         {Level: 1, Index: 1234067, Width: 256},
		"tile/1/x001/x234/067.p/255":                   {Level: 1, Index: 1234067, Width: 255},
		"tile/entries/x123/456.p/12":                   {IsEntryBundle: true, Index: 123456, Width: 12},
		"tile/entries/999":                             {IsEntryBundle: true, Index: 999, Width: 256},
		"tile/0/x018/x446/x744/x073/709":               {Index: 18446744073709, Width: 256},
		"tile/0/x018/x446/x744/x073/x709/x551/615.p/9": {Index: 1<<64 - 1, Width: 9},
	} {
		got, err := ParseTilePath(path)
		require.NoError(t, err, path)
		require.Equal(t, want, got)
		require.Equal(t, path, got.String())
	}
}

func TestTilePathsRefused(t *testing.T) {
	for _, path := range []string{
		"", "/", "tile", "tile/", "tile/0", "tile/0/", "/tile/0/000", "tiles/0/000", "tile/0/000/",
		"tile/64/000", "tile/00/000", "tile/-1/000", "tile/+1/000", "tile/256/000", "tile/entry/000", "tile//000",
		"tile/0/0", "tile/0/00", "tile/0/0000", "tile/0/x000", "tile/0/x000/000", "tile/0/x000/x001/000",
		"tile/0/001/000", "tile/0/x1/000", "tile/0/x0001/000", "tile/0/xx01/000", "tile/0/x001/x000", "tile/0/x001",
		"tile/0/-01", "tile/0/+01", "tile/0/0 1", "tile/0/1e1", "tile/0/٠٠١",
		"tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/0/000.p/-1",
		"tile/0/000.p/1/", "tile/0/000.p/1/1", "tile/0/000.p.p/1", "tile/0/.p/1", "tile/0/000.P/1", "tile/0/x001.p/1",
		"tile/0/000%2ep/1", "tile/0/../0/000", "tile/0/./000", "tile/entries/x000/000", "tile/entries",
		"tile/0/x018/x446/x744/x073/x709/x551/616", "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
		"tile/0/000\n", " tile/0/000", "tile/0/000.p/1 ",
	} {
		_, err := ParseTilePath(path)
		require.ErrorIs(t, err, ErrMalformed, "%q", path)
	}
}

// Our paths are the same as those of sumdb/tlog, except that they omit the tile height.
func TestTilePathsEqualTlog(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := TilePath{
			Level: uint8(rapid.IntRange(0, maxLevel).Draw(r, "level")),
			Index: uint64(rapid.Int64Range(0, 1<<62).Draw(r, "index")),
			Width: rapid.IntRange(1, FullTileWidth).Draw(r, "width"),
		}
		theirs := tlog.Tile{H: TileHeight, L: int(p.Level), N: int64(p.Index), W: p.Width}.Path()
		require.Equal(r, strings.Replace(theirs, "tile/8/", "tile/", 1), p.String())
		parsed, err := ParseTilePath(p.String())
		require.NoError(r, err)
		require.Equal(r, p, parsed)
	})
}

// A tree of 70,000 leaves has the tiles that tlog-tiles prescribes.
func TestTileWidth(t *testing.T) {
	const size = 70_000
	for index := range uint64(273) {
		require.Equal(t, 256, TileWidth(0, index, size))
	}
	require.Equal(t, 112, TileWidth(0, 273, size))
	require.Equal(t, 0, TileWidth(0, 274, size))
	require.Equal(t, 256, TileWidth(1, 0, size))
	require.Equal(t, 17, TileWidth(1, 1, size))
	require.Equal(t, 0, TileWidth(1, 2, size))
	require.Equal(t, 1, TileWidth(2, 0, size))
	require.Equal(t, 0, TileWidth(3, 0, size))
	require.Equal(t, 0, TileWidth(63, 0, size))

	require.Equal(t, 256, TileWidth(0, 0, 256))
	require.Equal(t, 0, TileWidth(0, 1, 256))
	require.Equal(t, 1, TileWidth(1, 0, 256))
	require.Equal(t, 0, TileWidth(0, 0, 0))
	require.Equal(t, 0, TileWidth(0, 1<<64-1, 1<<64-1))

	require.True(t, TilePath{Index: 273, Width: 112}.ExistsAt(size))
	require.True(t, TilePath{Index: 273, Width: 1}.ExistsAt(size))
	require.True(t, TilePath{Index: 3, Width: 7}.ExistsAt(size), "a partial tile stays available after the tile is full")
	require.False(t, TilePath{Index: 273, Width: 113}.ExistsAt(size))
	require.False(t, TilePath{Index: 273, Width: 256}.ExistsAt(size))
	require.False(t, TilePath{Index: 274, Width: 1}.ExistsAt(size))
	require.True(t, TilePath{IsEntryBundle: true, Index: 273, Width: 112}.ExistsAt(size))
}

func FuzzParseTilePath(f *testing.F) {
	for _, seed := range []string{"tile/0/000", "tile/1/x001/x234/067.p/255", "tile/entries/x123/456.p/12", "tile/0/x000/000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := ParseTilePath(path)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.Equal(t, path, p.String())
		require.LessOrEqual(t, p.Level, uint8(maxLevel))
		require.True(t, 1 <= p.Width && p.Width <= FullTileWidth)
		require.False(t, p.IsEntryBundle && p.Level != 0)
	})
}
