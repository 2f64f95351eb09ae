package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// The tests in c2sp_*_test.go check what the C2SP documents require of a log. The name of each case
// contains the keyword (such as MUST) and a summary of the requirement. The expected values are
// computed from the entries with SHA-256 alone.

// mth computes the Merkle Tree Hash of leaves (RFC 6962, section 2.1).
func mth(leaves [][]byte) [32]byte {
	if len(leaves) == 1 {
		return sha256.Sum256(append([]byte{0}, leaves[0]...))
	}
	half := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
	left, right := mth(leaves[:half]), mth(leaves[half:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// entries returns the entries of the default ledger.
func (s *service) entries() (list [][]byte) {
	s.t.Helper()
	for entry, err := range s.ledger().Reader().Entries(s.t.Context(), 0) {
		require.NoError(s.t, err)
		list = append(list, bytes.Clone(entry.Bytes))
	}
	return list
}

// published returns a service with the given number of records and a public log.
func published(t *testing.T, records int) *service {
	t.Helper()
	s := filled(t, records)
	s.do(http.MethodPut, "/visibility", `{"log":"public"}`, "Content-Type", "application/json").want(http.StatusOK)
	return s
}

// tilePath returns the path of a tile, whose index must be below 1,000. A width of 256 means a full
// tile.
func tilePath(level string, index, width int) string {
	path := fmt.Sprintf("/log/tile/%s/%03d", level, index)
	if width < 256 {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}

// wantTiles requests every tile and entry bundle of the tree over the first size entries, and
// checks their contents.
func (s *service) wantTiles(entries [][]byte, size int) {
	s.t.Helper()
	for level, below := 0, 1; below <= size; level, below = level+1, below*256 {
		nodes := size / below
		for index := 0; index*256 < nodes; index++ {
			width := min(256, nodes-index*256)
			var want []byte
			for i := index * 256; i < index*256+width; i++ {
				h := mth(entries[i*below : (i+1)*below])
				want = append(want, h[:]...)
			}
			require.Equal(s.t, want, s.get(tilePath(fmt.Sprint(level), index, width)).want(http.StatusOK).body)
			if level == 0 {
				s.wantBundle(entries[index*256:index*256+width], index)
			}
		}
	}
}

// wantBundle checks that an entry bundle consists of the given entries, each preceded by its length
// as a big-endian uint16.
func (s *service) wantBundle(entries [][]byte, index int) {
	s.t.Helper()
	var want []byte
	for _, entry := range entries {
		want = append(binary.BigEndian.AppendUint16(want, uint16(len(entry))), entry...)
	}
	require.Equal(s.t, want, s.get(tilePath("entries", index, len(entries))).want(http.StatusOK).body)
}

// While the log grows by one event at a time, the partial tiles for each size are served, and they
// stay available afterwards.
func TestTlogTilesOfEverySize(t *testing.T) {
	s := start(t)
	const most = 520
	for size := 1; ; size++ {
		require.EqualValues(t, size, s.size())
		if size < 10 || size%256 < 2 || size%256 > 254 || size%64 == 0 {
			s.wantTiles(s.entries(), size)
		}
		if size == most {
			break
		}
		s.post("/path-fingerprints", fmt.Sprintf(`{"project":"p","route":["%d"]}`, size), "Prefer", "return=minimal").want(http.StatusCreated)
	}
	t.Run("MUST serve the partial tiles of every size that was signed", func(t *testing.T) {
		entries := s.entries()
		for size := 1; size <= most; size++ {
			if width := size % 256; width > 0 {
				tile := s.get(tilePath("0", size/256, width)).want(http.StatusOK).body
				last := mth(entries[size-1 : size])
				require.Len(t, tile, 32*width)
				require.Equal(t, last[:], tile[32*(width-1):])
				s.wantBundle(entries[size-width:size], size/256)
			}
		}
		s.wantTiles(entries, 255)
		s.wantTiles(entries, 511)
	})
}

func TestTlogTiles(t *testing.T) {
	s := published(t, 299)
	entries := s.entries()
	t.Run("the n-th tile of level l has MTH(D[(n*256+i)*256^l : (n*256+i+1)*256^l])", func(t *testing.T) {
		s.wantTiles(entries, 300)
	})
	t.Run("MUST serve full tiles of exactly 256 hashes, 8,192 bytes", func(t *testing.T) {
		require.Len(t, s.get("/log/tile/0/000").want(http.StatusOK).body, 8192)
	})
	t.Run("MUST NOT hash a partial tile into the level above", func(t *testing.T) {
		require.Len(t, s.get("/log/tile/1/000.p/1").want(http.StatusOK).body, 32)
		s.get("/log/tile/1/000.p/2").problem(http.StatusNotFound)
		s.get("/log/tile/2/000.p/1").problem(http.StatusNotFound)
	})
	t.Run("a tree of 256 has a full tile of level 0 and one of width 1 above", func(t *testing.T) {
		s := filled(t, 255)
		s.wantTiles(s.entries(), 256)
		for _, empty := range []string{"0/001", "0/001.p/0", "0/001.p/1", "1/000", "1/000.p/0", "2/000.p/0", "entries/001", "entries/001.p/0", "entries/001.p/1"} {
			s.get("/log/tile/" + empty).problem(http.StatusNotFound)
		}
	})
	t.Run("MUST NOT serve what does not exist at this size", func(t *testing.T) {
		for _, path := range []string{"0/001", "0/001.p/45", "0/001.p/255", "0/002.p/1", "1/000", "1/001.p/1", "7/000.p/1", "8/000.p/1", "63/000.p/1",
			"entries/001", "entries/001.p/45", "entries/002.p/1", "0/x018/x446/x744/x073/x709/x551/615"} {
			a := s.get("/log/tile/" + path)
			a.problem(http.StatusNotFound)
			require.Equal(t, "private, no-cache", a.header.Get("Cache-Control"), "the tile may exist soon")
			require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
		}
	})
	t.Run("SHOULD have caches keep tiles and bundles for long", func(t *testing.T) {
		for _, path := range []string{"0/000", "0/001.p/44", "1/000.p/1", "entries/000", "entries/001.p/44"} {
			a := s.get("/log/tile/" + path).want(http.StatusOK)
			require.Equal(t, "application/octet-stream", a.header.Get("Content-Type"), "MUST")
			require.Equal(t, "public, max-age=31536000, immutable", a.header.Get("Cache-Control"))
			require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
		}
	})
	t.Run("MUST NOT prune without a policy", func(t *testing.T) {
		s.wantBundle(entries[:256], 0)
	})
}

// Every tile has exactly one path. The server answers any other path with 404, however similar.
func TestTlogTilePaths(t *testing.T) {
	s := published(t, 299)
	for _, path := range []string{"0/000", "0/000.p/255", "0/001.p/44", "entries/000.p/1", "1/000.p/1"} {
		require.Equal(t, http.StatusOK, s.statusOf(path), path)
	}
	for gist, paths := range map[string][]string{
		"MUST write the level as a decimal from 0 to 63 without more zeroes": {"00/000", "+0/000", "-0/000", "0x0/000", "64/000", "256/000", "%30/000", "/000", "٠/000", "a/000", "Entries/000", "entry/000"},
		"MUST write the index in elements of 3 digits":                       {"0/0", "0/00", "0/0000", "0/000000", "0/-00", "0/+00", "0/00a", "0/%30%30%30", "0/٠٠٠", "0/", "0", "entries", "entries/0"},
		"MUST begin all elements of the index but the last with x":           {"0/x000", "0/x000/x000", "0/000/000", "0/X000/000", "0/xx00/000", "0/x00/000"},
		"an index has one spelling":                                          {"0/x000/000", "entries/x000/x000/000", "0/x018/x446/x744/x073/x709/x551/616", "0/x999/x999/x999/x999/x999/x999/x999/000"},
		"a width is a decimal from 1 to 255 without more zeroes":             {"0/000.p/0", "0/000.p/01", "0/000.p/256", "0/000.p/+1", "0/000.p/-1", "0/000.p/", "0/000.p", "0/000.P/1", "0/000p/1", "0/000.p/1.p/1", "0/000.p/%31", "0/000/1", "0/x000.p/000"},
		"a path is that and nothing around it":                               {"", "0/000/", "/0/000", "0//000", "./0/000", "0/./000", "1/../0/000", "0%2F000", "0/000%00", "0/000?x=1", "0/000;v=1", "0/000#", "0/000.p/1#"},
	} {
		t.Run(gist, func(t *testing.T) {
			for _, path := range paths {
				require.Equal(t, http.StatusNotFound, s.statusOf(path), path)
			}
		})
	}
}

// statusOf requests a tile and returns the response status. It does not escape the path.
func (s *service) statusOf(path string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.http.URL, "http://"))
	require.NoError(s.t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "GET /v1/ledgers/default/log/tile/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
	require.NoError(s.t, err)
	answer, err := io.ReadAll(c)
	require.NoError(s.t, err)
	var status int
	_, err = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status)
	require.NoError(s.t, err, "%q", answer)
	return status
}

func TestTlogTilesCompression(t *testing.T) {
	s := published(t, 299)
	plain := s.get("/log/tile/entries/000", "Accept-Encoding", "identity").want(http.StatusOK)
	tile := s.get("/log/tile/0/000", "Accept-Encoding", "identity").want(http.StatusOK).body
	for accepted, packed := range map[string]bool{
		"gzip": true, "gzip, identity": true, "br, zstd, gzip;q=0.001": true, "GZIP": true, "gzip ; Q=1": true, "identity;q=0, gzip": true,
		"identity": false, "gzip;q=0": false, "gzip; q=0.000": false, "br": false, "x-gzipped": false, "gzip;q=x": false,
	} {
		t.Run("SHOULD compress bundles as the client accepts: "+accepted, func(t *testing.T) {
			a := s.get("/log/tile/entries/000", "Accept-Encoding", accepted).want(http.StatusOK)
			require.Equal(t, []string{"Accept-Encoding"}, a.header.Values("Vary"))
			if !packed {
				require.Empty(t, a.header.Values("Content-Encoding"))
				require.Equal(t, plain.body, a.body)
				return
			}
			require.Equal(t, "gzip", a.header.Get("Content-Encoding"))
			require.Less(t, len(a.body), len(plain.body)*2/3)
			z, err := gzip.NewReader(bytes.NewReader(a.body))
			require.NoError(t, err)
			body, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, plain.body, body)
			// Hash tiles are never compressed, because hashes do not compress.
			hashes := s.get("/log/tile/0/000", "Accept-Encoding", accepted).want(http.StatusOK)
			require.Empty(t, hashes.header.Values("Content-Encoding"))
			require.Equal(t, tile, hashes.body)
		})
	}
}

// HEAD requests for everything under log/ get the same headers as GET requests, including the
// length.
func TestTlogTilesHead(t *testing.T) {
	s := published(t, 299)
	for _, path := range []string{"/log/checkpoint", "/log/key", "/log/tile/0/000", "/log/tile/0/001.p/44", "/log/tile/entries/000", "/log/tile/entries/001.p/44", "/log/tile/0/009"} {
		for _, encoding := range []string{"identity", "gzip"} {
			get, head := s.get(path, "Accept-Encoding", encoding), s.do(http.MethodHead, path, "", "Accept-Encoding", encoding)
			require.Equal(t, get.status, head.status)
			require.Empty(t, head.body)
			for _, h := range []answer{get, head} {
				h.header.Del("Date")
				if strings.Contains(path, "entries") && encoding == "gzip" {
					h.header.Del("Content-Length") // known only after the compressed body has been sent
				}
			}
			require.Equal(t, get.header, head.header, path)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		s.do(method, "/log/tile/0/000", "").problem(http.StatusMethodNotAllowed)
	}
}

// The length prefix of an entry in a bundle can use all of its 16 bits.
func TestTlogTilesLongEntries(t *testing.T) {
	s := published(t, 3)
	var citations []string
	for i := range 200 {
		citations = append(citations, fmt.Sprintf(`{"source_id":"%d","text":"chunk %d","weight":1}`, i, i))
	}
	s.post("/citation-sets", `{"subject":"s","citations":[`+strings.Join(citations, ",")+`]}`).want(http.StatusCreated)
	s.post("/ipc-records", ipcBody("", "after")).want(http.StatusCreated)
	entries := s.entries()
	require.Greater(t, len(entries[4]), 1<<15)
	s.wantBundle(entries, 0)
	s.wantTiles(entries, len(entries))
}
