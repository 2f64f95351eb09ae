package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger/index/citations"
	"colophon/ledger/record"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// redactedByHeader names the event that has erased the texts of a document, if one
// has.
const redactedByHeader = "Colophon-Redacted-By"

// citationsDocument answers the citations document of a set (spec: Citations document), as it
// is. Texts are content, not part of the log: those of a set that is redacted are left out.
func (s *Server) citationsDocument(c echo.Context) error {
	q, err := s.askedAbout(c, []string{c.Param("seq")}, 0)
	if err != nil {
		return err
	}
	defer q.close()
	set, err := citationSetNamed(c, q)
	if err != nil {
		return err
	}
	// The texts once as the store has them and twice in the document, which grows.
	if err := buildAnswer(c, 6*s.mostContent()); err != nil {
		return err
	}
	texts, err := s.textsOf(q, set.Seq)
	by, redactedErr := redactedBy(q.ctx, q.ledger, set.Seq)
	switch {
	case redactedErr != nil:
		return redactedErr
	case by != nil:
		texts = nil
		c.Response().Header().Set(redactedByHeader, decimal(*by))
	case err != nil:
		return err
	}
	citations := make([]rules.Citation, len(set.Citations))
	for i, one := range set.Citations {
		citations[i] = rules.Citation{ChunkHash: []byte(one.ChunkHash), SourceID: []byte(one.SourceID),
			Text: texts[i], Weight: []byte(one.Weight)}
		if one.Section != nil {
			citations[i].Section = []byte(*one.Section)
		}
	}
	c.Response().Header().Set(asOf, decimal(q.view.Size()))
	q.close()
	return sendText(c, http.StatusOK, echo.MIMEApplicationJSON, rules.AppendCitationsDocument(nil, citations))
}

// citationSetNamed is the citation set that the path names.
func citationSetNamed(c echo.Context, q *question) (citations.Set, error) {
	seq, err := parseCount("seq", c.Param("seq"))
	if err != nil {
		return citations.Set{}, err
	}
	set, err := citations.Get(q.ctx, q.view, seq)
	return set, missing(err, "no citation set has that seq")
}

// textsOf are the texts of a set's citations, by their number.
func (s *Server) textsOf(q *question, seq uint64) (map[int][]byte, error) {
	entry, err := q.ledger.Store().Entry(q.ctx, seq)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", seq, err)
	}
	var e eventContent
	if err := json.Unmarshal(entry[proofs.HashSize:], &e); err != nil {
		return nil, fmt.Errorf("event %d: %w", seq, err)
	}
	texts := make(map[int][]byte)
	for name, content := range e.Record.Content {
		var i int
		if _, err := fmt.Sscanf(name, "citations/%d/text", &i); err != nil {
			continue
		}
		digest, err := proofs.ParseHash(content.SHA256)
		if err != nil {
			return nil, fmt.Errorf("event %d, content %q: %w", seq, name, err)
		}
		text, err := q.ledger.Store().Content(q.ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("content %q of event %d: %w", name, seq, err)
		}
		if text == nil {
			text = []byte{} // "" is a text
		}
		texts[i] = text
	}
	return texts, nil
}

// pinned is a pinned retrieval (spec: Pinned retrieval) that requires the chunks of a citation
// set.
type pinned struct {
	taken
	proved
	Chunks  []pinnedChunk `json:"chunks"`
	Missing []string      `json:"missing"` // required hashes that no source has
	Cut     []string      `json:"cut"`     // required hashes that top_k leaves no room for
}

type pinnedChunk struct {
	Hash     string `json:"hash"`
	Text     string `json:"text"`
	SourceID string `json:"source_id"`
}

// pinnedRetrieval retrieves from the sources of the request what a set cites, and says
// what of that they do not have.
func (s *Server) pinnedRetrieval(c echo.Context) error {
	// A body may take its time, which no view must be kept for.
	body, err := s.readQuestion(c)
	if err != nil {
		return err
	}
	defer release(body)
	if err := body.share.take(c.Request().Context(), retrievalMemory(body.Bytes())); err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	chunks, topK, err := decodeRetrieval(body.Bytes())
	if err != nil {
		return err
	}
	q, err := s.askedAbout(c, []string{c.Param("seq")}, provable)
	if err != nil {
		return err
	}
	defer q.close()
	set, err := citationSetNamed(c, q)
	if err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	answer, err := s.retrieve(c, &set, chunks, topK)
	if err != nil {
		return err
	}
	if err := answer.proveIn(q); err != nil {
		return err
	}
	return answerOne(q, answer)
}

// decodeRetrieval reads {sources, top_k}. What is required the set says.
func decodeRetrieval(body []byte) (chunks []rules.Chunk, topK int, err error) {
	chunks, required, topK, err := record.DecodeRetrieval(body)
	if err != nil {
		return nil, 0, err
	}
	if required != nil {
		return nil, 0, atPointer(http.StatusBadRequest, "/required_chunk_hashes", "unknown member; the citation set says what is required")
	}
	return chunks, topK, nil
}

// retrievalMemory is what the chunks of a request take beside their texts, in bytes: each
// has a hash, and is looked up in sets. Each is an object.
func retrievalMemory(body []byte) int64 {
	const ofChunk = 600
	return int64(min(bytes.Count(body, []byte("{")), record.MaxChunks)) * ofChunk
}

// retrieve chooses chunks, and holds memory for the answer. One source id can stand in
// many chunks: the answer can be many times as long as the request.
func (s *Server) retrieve(c echo.Context, set *citations.Set, chunks []rules.Chunk, topK int) (*pinned, error) {
	answer := &pinned{proved: proved{Seq: set.Seq}, Chunks: []pinnedChunk{}, Missing: []string{}, Cut: []string{}}
	held, named := make(map[string]bool), make(map[string]bool)
	for _, c := range chunks {
		held[string(c.Hash)] = true
	}
	var required [][]byte
	for _, c := range set.Citations {
		required = append(required, []byte(c.ChunkHash))
	}
	chosen := rules.PinnedRetrieval(chunks, required, topK)
	size, most := int64(0), 2*s.config.MaxBody
	for _, c := range chosen {
		size += int64(len(c.Hash) + len(c.Text) + len(c.SourceID))
	}
	if size > most {
		return nil, atPointer(http.StatusUnprocessableEntity, "/top_k", fmt.Sprintf("the chunks of the answer take %d bytes, at most %d are allowed; ask for fewer", size, most))
	}
	if err := buildAnswer(c, pageMemory+4*size); err != nil {
		return nil, err
	}
	for _, c := range chosen {
		named[string(c.Hash)] = true
		answer.Chunks = append(answer.Chunks, pinnedChunk{string(c.Hash), string(c.Text), string(c.SourceID)})
	}
	for _, hash := range required {
		h := string(hash)
		switch {
		case named[h]:
		case held[h]:
			answer.Cut = append(answer.Cut, h)
		default:
			answer.Missing = append(answer.Missing, h)
		}
		named[h] = true // each is named once
	}
	return answer, nil
}
