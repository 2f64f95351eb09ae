package paths

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/index/rowstore"
)

// FuzzPathRows checks that decoding a damaged value either fails or yields a value whose encoding
// is no longer than the input.
func FuzzPathRows(f *testing.F) {
	state := pathState{record: 9, build: 2, line: 2, span: 3, category: unchanged, otherBase: true, onlyLinksChanged: true, id: []byte("d2f2e118"), content: []byte{}, version: []byte("adr-004"), digest: make([]byte, 32)}
	f.Add(state.append(nil))
	of := line{base: 3, depth: 4, skip: 1, name: []byte("b"), branch: []byte("main"), baseName: []byte("a")}
	f.Add(of.append(nil))
	build := buildState{first: 1, categories: [4]uint64{1, 2, 3, 4}, otherBases: 1, paths: 6, kept: 4, addsPath: true}
	f.Add(build.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		again := func(decoded []byte, err error) {
			if err == nil {
				// A number in a damaged value can have a longer encoding than necessary.
				require.LessOrEqual(t, len(decoded), len(value))
				return
			}
			require.ErrorIs(t, err, rowstore.ErrDamaged)
		}
		s, err := decodePathState(value)
		again(s.append(nil), err)
		p, err := decodeProjectState(value)
		again(p.append(nil), err)
		b, err := decodeBuildState(value)
		again(b.append(nil), err)
		version, err := decodePathVersion(value)
		again(version.append(nil), err)
		l, err := decodeLine(value)
		again(l.append(nil), err)
		v, err := decodeValidation(value)
		again(v.append(nil), err)
	})
}

// Rows of paths survive encoding and decoding.
func TestPathRowsRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOf(rapid.Byte()))
	number, flag := rapid.Uint64(), rapid.Bool()
	rapid.Check(t, func(t *rapid.T) {
		s := pathState{
			record: number.Draw(t, "record"), build: number.Draw(t, "build"), category: rapid.Uint64Range(0, 3).Draw(t, "category"),
			line: number.Draw(t, "line"), span: number.Draw(t, "span"), otherBase: flag.Draw(t, "other base"), onlyLinksChanged: flag.Draw(t, "links"),
			id: text.Draw(t, "id"), content: text.Draw(t, "content"), raw: text.Draw(t, "raw"),
			version: text.Draw(t, "version"), digest: text.Draw(t, "digest"),
		}
		value := s.append(nil)
		read, err := decodePathState(value)
		require.NoError(t, err)
		require.True(t, sameText(s.content, read.content) && sameText(s.raw, read.raw) && sameText(s.digest, read.digest))
		require.True(t, bytes.Equal(s.id, read.id) && bytes.Equal(s.version, read.version))
		read.id, read.content, read.raw, read.version, read.digest = s.id, s.content, s.raw, s.version, s.digest
		require.Equal(t, s, read)
		_, err = decodePathState(value[:len(value)-1])
		require.ErrorIs(t, err, rowstore.ErrDamaged)
	})
}

// assignPathID returns the shortest path_id that no other path has, even for routes that have
// the same MD5.
func TestLongPathIDs(t *testing.T) {
	route := []byte("Start → Day 18555")
	held := make(map[string]bool)
	const digits = "d2f2e118c8482b41d7f2bf859348ffd6" // MD5 of the route
	for length := 8; length <= 96; length += 8 {
		id := string(assignPathID(route, func(id []byte) bool { return held[string(id)] }))
		require.Len(t, id, length)
		require.Equal(t, digits[:min(length, 32)], id[:min(length, 32)])
		held[id] = true
	}
	const half1, half2 = "TEXTCOLLBYfGiJUETHQ4h", "cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"
	first, second := assignPathID([]byte(half1+"A"+half2), never), assignPathID([]byte(half1+"E"+half2), never)
	require.Equal(t, first, second, "two texts with the same MD5, found by M. Stevens")
	all := func(id []byte) bool { return len(id) <= 32 }
	first, second = assignPathID([]byte(half1+"A"+half2), all), assignPathID([]byte(half1+"E"+half2), all)
	require.Equal(t, first[:32], second[:32])
	require.NotEqual(t, first, second)
}

func never([]byte) bool { return false }
