package log

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/proofs"
)

// This file serves the transparency log in the form of C2SP tlog-tiles (spec: Tiles and entry bundles;
// Checkpoints).

const immutable = "max-age=31536000, immutable"

// cacheable sets the headers for a resource that never changes. If the log is public, shared caches are allowed
// to keep it. Otherwise only the caller's own cache is allowed to keep it, and only for the same credentials.
func (h *Handlers) cacheable(l *ledger.Ledger, header http.Header) {
	if !h.open(l) {
		header.Set(echo.HeaderCacheControl, "private, "+immutable)
		header.Add(echo.HeaderVary, echo.HeaderAuthorization)
		return
	}
	header.Set(echo.HeaderCacheControl, "public, "+immutable)
}

// open reports whether a client can read the ledger's log without credentials.
func (h *Handlers) open(l *ledger.Ledger) bool {
	return !h.Authenticator.RequiresIdentity() || l.HasPublicLog()
}

// ServeCheckpoint sends the latest signed checkpoint.
func (h *Handlers) ServeCheckpoint(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	if h.open(l) {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	}
	checkpoint := l.Head().Checkpoint
	if unchanged(c, checkpoint, "") {
		return c.NoContent(http.StatusNotModified)
	}
	return c.AnswerSharedText("text/plain; charset=utf-8", checkpoint)
}

// ServeTile sends a hash tile or an entry bundle. It responds with 404 both for a malformed path
// and for a tile that does not exist.
func (h *Handlers) ServeTile(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	path, err := proofs.ParseTilePath("tile/" + c.Param("*"))
	head := l.Head()
	if err != nil || !path.ExistsAt(head.Size) || len(c.QueryParams()) > 0 {
		return problem.New(http.StatusNotFound, "the log has no such tile at size %d", head.Size)
	}
	var body []byte
	if path.IsEntryBundle {
		body, err = h.bundle(c, l, path)
	} else {
		body, err = l.Prover(c.Request().Context(), head).Tile(path.Level, path.Index)
	}
	if err != nil {
		return err
	}
	h.cacheable(l, c.Response().Header())
	if !path.IsEntryBundle {
		return answerBytes(c, body[:path.Width*proofs.HashSize])
	}
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if call.AcceptsGzip(c.Request()) {
		return answerGzip(c, body)
	}
	return answerBytes(c, body)
}

// unchanged sets the entity tag of an answer, and reports whether the client already has that
// answer (RFC 9110, section 13.1.2). coding distinguishes the tags of different encodings.
func unchanged(c *call.Call, body []byte, coding string) bool {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + coding + `"`
	c.Response().Header().Set("ETag", tag)
	for _, header := range c.Request().Header.Values("If-None-Match") {
		for had := range strings.SplitSeq(header, ",") {
			if had = strings.TrimPrefix(strings.TrimSpace(had), "W/"); had == tag || had == "*" {
				return true
			}
		}
	}
	return false
}

// answerBytes sends body. It sets the Content-Length header, so that responses to HEAD requests
// have it too.
func answerBytes(c *call.Call, body []byte) error {
	if unchanged(c, body, "") {
		return c.NoContent(http.StatusNotModified)
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return c.AnswerText(http.StatusOK, echo.MIMEOctetStream, body)
}

// gzipWriters pools gzip writers, because each of them allocates a megabyte. Entries consist mostly
// of hashes, which no level compresses better than BestSpeed.
var gzipWriters = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	return z
}}

// answerGzip sends body compressed with gzip. It compresses the whole body before it sends any of
// it, so that a slow client does not keep the body or a gzip writer in use.
func answerGzip(c *call.Call, body []byte) error {
	if unchanged(c, body, "-gzip") {
		return c.NoContent(http.StatusNotModified)
	}
	answer := call.NewBuffer()
	defer answer.Release()
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(answer)
	_, err := z.Write(body)
	err = errors.Join(err, z.Close())
	z.Reset(nil) // drop the reference to the answer
	gzipWriters.Put(z)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentEncoding, "gzip")
	return answer.Send(c, http.StatusOK, echo.MIMEOctetStream)
}

// bundle reads the entries of a tile and returns them as an entry bundle. It reserves memory for
// the growing bundle, for the copies made when it grows, and for the compressed form.
func (h *Handlers) bundle(c *call.Call, l *ledger.Ledger, path proofs.TilePath) ([]byte, error) {
	const copies = 3
	body, room := []byte(nil), 0
	first := path.Index * proofs.FullTileWidth
	for entry, err := range l.Reader().Entries(c.Request().Context(), first) {
		if err != nil {
			return nil, err
		}
		if entry.Seq >= first+uint64(path.Width) {
			break
		}
		if need := len(body) + len(entry.Bytes); need > room {
			room = max(2*need, 256<<10)
			if err := c.BeginAnswer(int64(copies * room)); err != nil {
				return nil, err
			}
		}
		if body, err = proofs.AppendBundleEntry(body, entry.Bytes); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// ServeVerifierKeys sends the current verifier key of the log and its predecessors, in the format
// that proofs.ParseKeyHistory parses.
func (h *Handlers) ServeVerifierKeys(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	return c.AnswerJSON(http.StatusOK, l.KeyHistory())
}
