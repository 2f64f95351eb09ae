package proofs

import (
	"fmt"
	"strconv"
	"strings"
)

// TilePath is the path of a hash tile or an entry bundle (tlog-tiles), relative to the log's
// prefix: tile/<L>/<N>[.p/<W>] or tile/entries/<N>[.p/<W>].
type TilePath struct {
	IsEntryBundle bool   // whether this is the path of an entry bundle, in which case Level is 0
	Level         uint8  // 0 to 63
	Index         uint64 // position among the tiles of the level, from 0
	Width         int    // 1 to 255 for a partial tile, FullTileWidth for a full one
}

const (
	maxLevel  = 63
	maxGroups = 7 // groups of three digits; enough for any 64-bit index
)

// ParseTilePath parses a path in canonical form. It returns ErrMalformed for any other text.
func ParseTilePath(path string) (TilePath, error) {
	p, ok := parseTilePath(path)
	if !ok || p.String() != path {
		return TilePath{}, fmt.Errorf("%w: %.100q is not a tile path", ErrMalformed, path)
	}
	return p, nil
}

// parseTilePath parses a path. It accepts every canonical path, as well as some paths that are not
// canonical.
func parseTilePath(path string) (p TilePath, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) < 3 || len(parts) > 2+maxGroups+1 || parts[0] != "tile" {
		return p, false
	}
	if parts[1] == "entries" {
		p.IsEntryBundle = true
	} else if p.Level, ok = parseLevel(parts[1]); !ok {
		return p, false
	}
	groups := parts[2:]
	p.Width = FullTileWidth
	if last := len(groups) - 1; last > 0 && strings.HasSuffix(groups[last-1], ".p") {
		width, err := strconv.ParseUint(groups[last], 10, 8)
		if err != nil || width == 0 {
			return p, false
		}
		p.Width = int(width)
		groups = groups[:last]
		groups[last-1] = strings.TrimSuffix(groups[last-1], ".p")
	}
	p.Index, ok = parseIndex(groups)
	return p, ok
}

func parseLevel(text string) (uint8, bool) {
	level, err := strconv.ParseUint(text, 10, 8)
	return uint8(level), err == nil && level <= maxLevel
}

func parseIndex(groups []string) (uint64, bool) {
	var digits strings.Builder
	for i, g := range groups {
		if i < len(groups)-1 {
			g = strings.TrimPrefix(g, "x")
		}
		digits.WriteString(g)
	}
	index, err := strconv.ParseUint(digits.String(), 10, 64)
	return index, err == nil
}

// String returns the path in canonical form.
func (p TilePath) String() string {
	b := []byte("tile/entries")
	if !p.IsEntryBundle {
		b = strconv.AppendUint([]byte("tile/"), uint64(p.Level), 10)
	}
	digits := strconv.FormatUint(p.Index, 10)
	digits = strings.Repeat("0", (3-len(digits)%3)%3) + digits
	for ; len(digits) > 3; digits = digits[3:] {
		b = append(append(b, "/x"...), digits[:3]...)
	}
	b = append(append(b, '/'), digits...)
	if p.Width != FullTileWidth {
		b = strconv.AppendInt(append(b, ".p/"...), int64(p.Width), 10)
	}
	return string(b)
}

// ExistsAt reports whether a tree of the given size has the tile with at least p.Width hashes. A
// partial tile remains available after the tile has grown.
func (p TilePath) ExistsAt(size uint64) bool {
	return p.Width <= TileWidth(p.Level, p.Index, size)
}
