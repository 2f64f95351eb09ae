package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
	"colophon/storage"
)

// The transparency log in the form of C2SP tlog-tiles (spec: Tiles and entry bundles;
// Checkpoints).

const immutable = "max-age=31536000, immutable"

// cacheable sets the headers for a resource that never changes. Shared caches may keep it if
// the log is public. Otherwise only the caller's cache may keep it, for the same credentials.
func (s *Server) cacheable(l *ledger.Ledger, h http.Header) {
	if !s.open(l) {
		h.Set(echo.HeaderCacheControl, "private, "+immutable)
		h.Add(echo.HeaderVary, echo.HeaderAuthorization)
		return
	}
	h.Set(echo.HeaderCacheControl, "public, "+immutable)
}

// open reports whether the ledger's log can be read without credentials.
func (s *Server) open(l *ledger.Ledger) bool { return !s.config.Access.Required() || l.Public() }

// checkpoint answers the last signed checkpoint.
func (s *Server) checkpoint(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	if s.open(l) {
		c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	}
	checkpoint := l.Head().Checkpoint
	if unchanged(c, checkpoint, "") {
		return c.NoContent(http.StatusNotModified)
	}
	return sendShared(c, "text/plain; charset=utf-8", checkpoint)
}

// tile answers a hash tile or an entry bundle. It answers 404 for a malformed path as well as
// for a tile that does not exist.
func (s *Server) tile(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	path, err := proofs.ParseTilePath("tile/" + c.Param("*"))
	head := l.Head()
	if err != nil || !path.In(head.Size) || len(c.QueryParams()) > 0 {
		return fault(http.StatusNotFound, "no such tile at size %d", head.Size)
	}
	var body []byte
	if path.Entries {
		body, err = s.bundle(c, l, path)
	} else {
		body, err = l.Prover(c.Request().Context(), head).Tile(path.Level, path.Index)
	}
	if err != nil {
		return err
	}
	s.cacheable(l, c.Response().Header())
	if !path.Entries {
		return answerBytes(c, body[:path.Width*proofs.HashSize])
	}
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	if acceptsGzip(c.Request()) {
		return answerGzip(c, body)
	}
	return answerBytes(c, body)
}

// unchanged sets the entity tag of an answer, and reports whether the client has that answer
// already (RFC 9110, section 13.1.2). coding distinguishes the tags of encodings.
func unchanged(c echo.Context, body []byte, coding string) bool {
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

// answerBytes answers bytes with their length, to HEAD requests too.
func answerBytes(c echo.Context, body []byte) error {
	if unchanged(c, body, "") {
		return c.NoContent(http.StatusNotModified)
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	return sendText(c, http.StatusOK, echo.MIMEOctetStream, body)
}

// gzipWriters are pooled, because each allocates a megabyte. Entries consist mostly of hashes,
// which no level packs better than BestSpeed.
var gzipWriters = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is invalid
	}
	return z
}}

// answerGzip answers bytes compressed with gzip. It compresses all of them before it sends
// any, so that a slow client holds neither the bytes nor a writer.
func answerGzip(c echo.Context, body []byte) error {
	if unchanged(c, body, "-gzip") {
		return c.NoContent(http.StatusNotModified)
	}
	answer := newReply()
	defer answer.release()
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(answer)
	_, err := z.Write(body)
	err = errors.Join(err, z.Close())
	z.Reset(nil) // release the answer
	gzipWriters.Put(z)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentEncoding, "gzip")
	return answer.send(c, http.StatusOK, echo.MIMEOctetStream)
}

// bundle reads the entries of a tile. It holds memory for the bundle while that grows, for the
// copies that growing makes, and for the compressed form.
func (s *Server) bundle(c echo.Context, l *ledger.Ledger, path proofs.TilePath) ([]byte, error) {
	const copies = 3
	body, room := []byte(nil), 0
	first := path.Index * proofs.FullTile
	for entry, err := range l.Store().Entries(c.Request().Context(), first) {
		if err != nil {
			return nil, err
		}
		if entry.Seq >= first+uint64(path.Width) {
			break
		}
		if need := len(body) + len(entry.Bytes); need > room {
			room = max(2*need, 256<<10)
			if err := buildAnswer(c, int64(copies*room)); err != nil {
				return nil, err
			}
		}
		if body, err = proofs.AppendBundle(body, entry.Bytes); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// acceptsGzip reports whether the request names gzip with a quality above 0 (RFC 9110, section
// 12.5.3).
func acceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values(echo.HeaderAcceptEncoding) {
		for part := range strings.SplitSeq(strings.ToLower(header), ",") {
			name, parameters, _ := strings.Cut(part, ";")
			if strings.TrimSpace(name) == "gzip" && quality(parameters) > 0 {
				return true
			}
		}
	}
	return false
}

// hashList answers {"as_of", "hashes", "checkpoint"}: a proof in the order of RFC 6962, the
// size of the tree that it leads to, and the checkpoint of that tree. A nil checkpoint is left
// out.
func hashList(c echo.Context, size uint64, hashes []proofs.Hash, checkpoint []byte) error {
	answer := newReply()
	defer answer.release()
	answer.text = strconv.AppendUint(append(answer.text, `{"as_of":`...), size, 10)
	answer.text = proofs.AppendHashes(append(answer.text, `,"hashes":`...), hashes)
	if checkpoint != nil {
		answer.text = pyjson.AppendString(append(answer.text, `,"checkpoint":`...), checkpoint)
	}
	answer.text = append(answer.text, '}')
	return answer.send(c, http.StatusOK, echo.MIMEApplicationJSON)
}

// inclusion answers the inclusion proof of an event.
func (s *Server) inclusion(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	head := l.Head()
	seq, size, given := uint64(0), head.Size, false
	if err := query(c, count("seq", &seq, &given), count("tree_size", &size, nil)); err != nil {
		return err
	}
	switch {
	case !given:
		return invalid("seq", "is required")
	case size > head.Size:
		return invalid("tree_size", "is beyond the head: the ledger has %d events", head.Size)
	case seq >= size:
		return invalid("seq", "must be below the tree size, %d", size)
	}
	path, err := l.Prover(c.Request().Context(), head).Inclusion(seq, size)
	if err != nil {
		return err
	}
	return hashList(c, size, path, nil)
}

// consistency answers the consistency proof between two tree sizes.
func (s *Server) consistency(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	head := l.Head()
	first, second, given := uint64(0), head.Size, false
	if err := query(c, count("first", &first, &given), count("second", &second, nil)); err != nil {
		return err
	}
	switch {
	case !given || first == 0:
		return invalid("first", "is required, and at least 1")
	case second > head.Size:
		return invalid("second", "is beyond the head: the ledger has %d events", head.Size)
	case first > second:
		return invalid("first", "must not exceed second, %d", second)
	}
	path, err := l.Prover(c.Request().Context(), head).Consistency(first, second)
	if err != nil {
		return err
	}
	if second == head.Size {
		return hashList(c, second, path, head.Checkpoint)
	}
	return hashList(c, second, path, nil)
}

// event answers one event by its event_hash.
func (s *Server) event(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	head := l.Head()
	hash, err := proofs.ParseHash(c.Param("hash"))
	if err != nil {
		if hash, err = s.eventWith(c, l, head, c.Param("hash")); err != nil {
			return err
		}
	}
	seq, err := s.config.Index.Follower(l.Name()).Find(ctx, hash, 0)
	if errors.Is(err, storage.ErrNotFound) {
		var follower *index.Follower
		endHeavy(c) // others compute while it waits
		if follower, err = s.waitForIndex(ctx, l, head.Size); err != nil {
			return err
		}
		seq, err = follower.Find(ctx, hash, head.Size)
	}
	if errors.Is(err, storage.ErrNotFound) || err == nil && seq >= head.Size {
		return fault(http.StatusNotFound, "no event of the first %d has that hash", head.Size)
	}
	if err != nil {
		return err
	}
	entry, err := l.Store().Entry(ctx, seq)
	if err != nil {
		return err
	}
	found, err := eventLineOf(seq, entry)
	if err != nil {
		return err
	}
	c.Response().Header().Set(asOf, decimal(head.Size))
	return answerJSON(c, http.StatusOK, found)
}

var eventPrefix = regexp.MustCompile(`^[0-9a-f]{8,63}$`)

// eventWith returns the hash of the only event whose hash begins with some digits.
func (s *Server) eventWith(c echo.Context, l *ledger.Ledger, head *ledger.Head, digits string) (proofs.Hash, error) {
	if !eventPrefix.MatchString(digits) {
		return proofs.Hash{}, invalid("event_hash", "must be 64 lower-case hexadecimal digits, or at least the first 8")
	}
	endHeavy(c) // others compute while it waits
	ctx := c.Request().Context()
	follower, err := s.waitForIndex(ctx, l, head.Size)
	if err != nil {
		return proofs.Hash{}, err
	}
	found, err := index.FindPrefix(ctx, follower, digits, head.Size)
	switch {
	case err != nil:
		return proofs.Hash{}, err
	case len(found) == 0:
		return proofs.Hash{}, fault(http.StatusNotFound, "no event of the first %d has a hash that begins with %s", head.Size, digits)
	case len(found) == 1:
		return found[0].Hash, nil
	}
	var list []string
	for _, e := range found {
		list = append(list, hex.EncodeToString(e.Hash[:]))
	}
	return proofs.Hash{}, invalid("event_hash", "begins several hashes: %s; give more digits", strings.Join(list, ", "))
}
