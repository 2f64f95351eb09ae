// Package console serves the web page at /, which shows the contents of the ledgers. The page is
// built from src by `make console`, and the built files are embedded in the binary.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

//go:embed dist
var dist embed.FS

// page is the name of the page's HTML file. All other files of the page are served below
// /ui/VERSION.
const page = "index.html"

// policy is the Content-Security-Policy of the page. It permits only the page's own files and
// requests to this server, and it prevents text from being interpreted as markup or script.
// connect-src comes last so that ServePage can append origins to it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'; connect-src 'self'"

// builtFile is a file in the two forms in which it can be sent: plain and gzip-compressed.
type builtFile struct {
	mediaType    string
	plain, gzip  []byte
	tag, gzipTag string // entity tags of the two forms
}

// bundle holds the built files. Its version is a digest of all files, so the content at a URL
// that contains the version never changes.
type bundle struct {
	version string
	files   map[string]builtFile
}

var load = sync.OnceValue(func() bundle {
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		panic(err) // cannot happen, because the folder is embedded
	}
	b, all := bundle{files: make(map[string]builtFile)}, sha256.New()
	texts := make(map[string][]byte)
	for _, entry := range entries { // in name order, so the version is reproducible
		text, err := dist.ReadFile("dist/" + entry.Name())
		if err != nil {
			panic(err)
		}
		texts[entry.Name()] = text
		sum := sha256.Sum256(text)
		_, _ = all.Write(append(sum[:], entry.Name()...)) // Write never returns an error for a hash
	}
	b.version = short(all.Sum(nil))
	for name, text := range texts {
		if name == page {
			text = bytes.ReplaceAll(text, []byte("ui/VERSION/"), []byte("ui/"+b.version+"/"))
		}
		sum := sha256.Sum256(text)
		b.files[name] = builtFile{mediaTypeOf(name), text, compressed(text), `"` + short(sum[:]) + `"`, `"` + short(sum[:]) + `-gzip"`}
	}
	return b
})

func short(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum[:16]) }

// mediaTypeOf returns the media type of a file. Unlike mime.TypeByExtension, it does not depend
// on the configuration of the machine.
func mediaTypeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

func compressed(text []byte) []byte {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(text)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // cannot happen: the level is valid, and writing to a buffer never fails
	}
	return b.Bytes()
}

// ServePage sends the page, compressed if gzip is true. connect lists the origins of identity
// providers. The page may send requests to them as well as to this server.
func ServePage(w http.ResponseWriter, r *http.Request, gzip bool, connect ...string) {
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Join(append([]string{policy}, connect...), " "))
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	load().files[page].send(w, r, gzip)
}

// ServeFile sends one of the page's files, compressed if gzip is true. It returns false and sends
// nothing if there is no such file in the given version of the page.
func ServeFile(w http.ResponseWriter, r *http.Request, gzip bool, version, name string) bool {
	b := load()
	f, found := b.files[name]
	if !found || name == page || version != b.version {
		return false
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	f.send(w, r, gzip)
	return true
}

// send responds with the file, or with 304 if the client already has it.
func (f builtFile) send(w http.ResponseWriter, r *http.Request, gzip bool) {
	h := w.Header()
	h.Set("Content-Type", f.mediaType)
	h.Add("Vary", "Accept-Encoding")
	text, tag := f.plain, f.tag
	if gzip {
		h.Set("Content-Encoding", "gzip")
		text, tag = f.gzip, f.gzipTag
	}
	h.Set("ETag", tag)
	if hasTag(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // an error means that the client has disconnected
}

// hasTag reports whether the client already has the content with the given entity tag (RFC 9110,
// section 13.1.2).
func hasTag(r *http.Request, tag string) bool {
	for _, header := range r.Header.Values("If-None-Match") {
		for had := range strings.SplitSeq(header, ",") {
			if had = strings.TrimPrefix(strings.TrimSpace(had), "W/"); had == tag || had == "*" {
				return true
			}
		}
	}
	return false
}
