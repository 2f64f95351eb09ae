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

// redactedByHeader names the event that erased the texts of a document.
const redactedByHeader = "Colophon-Redacted-By"

// citationsDocument answers the citations document of a set, byte for byte (spec: Citations
// document). The texts are content and not part of the log. The document of a redacted set has
// none.
func (s *Server) citationsDocument(c echo.Context) error {
	q, err := s.openQueryAbout(c, []string{c.Param("seq")}, 0)
	if err != nil {
		return err
	}
	defer q.close()
	set, err := citationSetInPath(c, q)
	if err != nil {
		return err
	}
	// The store holds the texts once. The document holds them twice, because its buffer grows.
	if err := buildAnswer(c, 6*s.maxContent()); err != nil {
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

// citationSetInPath reads the citation set that the path names.
func citationSetInPath(c echo.Context, q *indexQuery) (citations.Set, error) {
	seq, err := parseCount("seq", c.Param("seq"))
	if err != nil {
		return citations.Set{}, err
	}
	set, err := citations.Get(q.ctx, q.view, seq)
	return set, notFound(err, "no citation set has that seq")
}

// textsOf returns the texts of a set's citations, keyed by the index of the citation.
func (s *Server) textsOf(q *indexQuery, seq uint64) (map[int][]byte, error) {
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
			text = []byte{} // an empty text is not a missing one
		}
		texts[i] = text
	}
	return texts, nil
}

// retrievalAnswer is a pinned retrieval (spec: Pinned retrieval) that requires the chunks of a
// citation set.
type retrievalAnswer struct {
	answerTree
	provenSeq
	Chunks  []pinnedChunk `json:"chunks"`
	Missing []string      `json:"missing"` // required hashes that no source has
	Cut     []string      `json:"cut"`     // required hashes beyond top_k
}

type pinnedChunk struct {
	Hash     string `json:"hash"`
	Text     string `json:"text"`
	SourceID string `json:"source_id"`
}

// pinnedRetrieval selects the chunks that a set cites from the sources in the request, and
// reports which of them the sources lack.
func (s *Server) pinnedRetrieval(c echo.Context) error {
	// The body is read first: a slow client must not keep a view open.
	body, err := s.readQuestion(c)
	if err != nil {
		return err
	}
	defer release(body)
	if err := body.share.Take(c.Request().Context(), retrievalMemory(body.Bytes())); err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	chunks, topK, err := decodeRetrieval(body.Bytes())
	if err != nil {
		return err
	}
	q, err := s.openQueryAbout(c, []string{c.Param("seq")}, withProofs)
	if err != nil {
		return err
	}
	defer q.close()
	set, err := citationSetInPath(c, q)
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

// decodeRetrieval reads {sources, top_k}. The citation set supplies the required hashes.
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

// retrievalMemory estimates the memory, in bytes, that the chunks of a request need beside
// their texts. Each chunk is a JSON object, has a hash, and stands in lookup sets.
func retrievalMemory(body []byte) int64 {
	const ofChunk = 600
	return int64(min(bytes.Count(body, []byte("{")), record.MaxChunks)) * ofChunk
}

// retrieve selects chunks and holds memory for the answer. The answer can be many times longer
// than the request, because many chunks can share one source id.
func (s *Server) retrieve(c echo.Context, set *citations.Set, chunks []rules.Chunk, topK int) (*retrievalAnswer, error) {
	answer := &retrievalAnswer{provenSeq: provenSeq{Seq: set.Seq}, Chunks: []pinnedChunk{}, Missing: []string{}, Cut: []string{}}
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
		named[h] = true // list each hash once
	}
	return answer, nil
}
