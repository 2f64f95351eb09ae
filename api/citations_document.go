package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	questions "colophon/ledger/query"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
	"colophon/proofs"
)

// redactedByHeader names the event that erased the texts of a document.
const redactedByHeader = "Colophon-Redacted-By"

// citationsDocument answers the citations document of a set, byte for byte (spec: Citations
// document). The texts are content and not part of the log. The document of a redacted set has
// none.
func (s *Server) citationsDocument(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	elements, err := pathElements(c)
	if err != nil {
		return err
	}
	_, view, err := s.openView(c, &questions.Document, elements)
	if err != nil {
		return err
	}
	defer view.Close()
	set, err := questions.CitationSet(view, elements)
	if err != nil {
		return err
	}
	// The store holds the texts once. The document holds them twice, because its buffer grows.
	if err := buildAnswer(c, 6*s.maxContent()); err != nil {
		return err
	}
	texts, err := textsOf(view.Context, l, set.Seq)
	by, redactedErr := questions.RedactedBy(view.Context, l.Store(), set.Seq)
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
	c.Response().Header().Set(asOf, decimal(view.Size()))
	view.Close()
	return sendText(c, http.StatusOK, echo.MIMEApplicationJSON, rules.AppendCitationsDocument(nil, citations))
}

// textsOf returns the texts of a set's citations, keyed by the index of the citation.
func textsOf(ctx context.Context, l *ledger.Ledger, seq uint64) (map[int][]byte, error) {
	entry, err := l.Store().Entry(ctx, seq)
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
		text, err := l.Store().Content(ctx, digest)
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
	elements, err := pathElements(c)
	if err != nil {
		return err
	}
	_, view, err := s.openView(c, &questions.Retrieval, elements)
	if err != nil {
		return err
	}
	defer view.Close()
	set, err := questions.CitationSet(view, elements)
	if err != nil {
		return err
	}
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	answer, err := questions.Retrieve(view, &set, chunks, topK, func(size int64) error {
		if most := 2 * s.config.MaxBody; size > most {
			return atPointer(http.StatusUnprocessableEntity, "/top_k", fmt.Sprintf("the chunks of the answer take %d bytes, at most %d are allowed; ask for fewer", size, most))
		}
		return buildAnswer(c, pageMemory+4*size)
	})
	if err != nil {
		return err
	}
	return sendAnswer(c, view, answer)
}

// decodeRetrieval reads the sources and top_k. The citation set supplies the required hashes.
func decodeRetrieval(body []byte) (chunks []rules.Chunk, topK int, err error) {
	r, err := retrieval.Decode(body)
	if err != nil {
		return nil, 0, err
	}
	if r.Required != nil {
		return nil, 0, atPointer(http.StatusBadRequest, "/required_chunk_hashes", "unknown member; the citation set says what is required")
	}
	return r.Chunks, r.TopK, nil
}

// retrievalMemory estimates the memory, in bytes, that the chunks of a request need beside
// their texts. Each chunk is a JSON object, has a hash, and stands in lookup sets.
func retrievalMemory(body []byte) int64 {
	const ofChunk = 600
	return int64(min(bytes.Count(body, []byte("{")), retrieval.MaxChunks)) * ofChunk
}
