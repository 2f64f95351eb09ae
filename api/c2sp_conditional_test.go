package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that has the current version of a log file gets 304 without a body, for both GET and
// HEAD (RFC 9110, section 13.1.2).
func TestConditionalRequests(t *testing.T) {
	s := published(t, 299)
	for _, path := range []string{"/log/checkpoint", "/log/tile/0/000", "/log/tile/0/001.p/44", "/log/tile/entries/000", "/log/tile/entries/001.p/44"} {
		for _, encoding := range []string{"identity", "gzip"} {
			get := s.get(path, "Accept-Encoding", encoding).want(http.StatusOK)
			tag := get.header.Get("ETag")
			for _, had := range []string{tag, "W/" + tag, `"x", ` + tag, tag + `,"y"`, "*"} {
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					a := s.do(method, path, "", "Accept-Encoding", encoding, "If-None-Match", had).want(http.StatusNotModified)
					require.Empty(t, a.body)
					for _, name := range []string{"ETag", "Cache-Control", "Vary", "Access-Control-Allow-Origin"} {
						require.Equal(t, get.header.Values(name), a.header.Values(name), "%s of %s", name, path)
					}
				}
			}
			for _, had := range []string{"", `""`, `"x"`, strings.Trim(tag, `"`), tag[:len(tag)-2] + `"`} {
				a := s.get(path, "Accept-Encoding", encoding, "If-None-Match", had).want(http.StatusOK)
				require.Equal(t, get.body, a.body)
				require.Equal(t, tag, a.header.Get("ETag"))
			}
		}
	}
}

// Entity tags differ between the files of a log and between the encodings of a bundle. A new event
// changes the tag of the checkpoint, but not the tags of existing tiles.
func TestEntityTagsDiffer(t *testing.T) {
	s := published(t, 9)
	tag := func(path, encoding string) string {
		return s.get(path, "Accept-Encoding", encoding).want(http.StatusOK).header.Get("ETag")
	}
	tags := map[string]bool{
		tag("/log/checkpoint", "identity"):              true,
		tag("/log/tile/0/000.p/9", "identity"):          true,
		tag("/log/tile/0/000.p/10", "identity"):         true,
		tag("/log/tile/entries/000.p/9", "identity"):    true,
		tag("/log/tile/entries/000.p/9", "gzip"):        true,
		tag("/log/tile/entries/000.p/10", "identity"):   true,
		tag("/log/tile/entries/000.p/10", "gzip;q=0.5"): true,
	}
	require.Len(t, tags, 7)
	before, tile := tag("/log/checkpoint", "gzip"), tag("/log/tile/0/000.p/9", "gzip")
	require.True(t, tags[before])
	require.True(t, tags[tile])
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	require.NotEqual(t, before, tag("/log/checkpoint", "identity"))
	require.Equal(t, tile, tag("/log/tile/0/000.p/9", "identity"))
	a := s.get("/log/tile/0/009", "If-None-Match", "*")
	a.problem(http.StatusNotFound)
	require.Empty(t, a.header.Values("ETag"))
}
