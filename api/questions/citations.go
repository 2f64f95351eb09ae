package questions

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger/query"
	"colophon/ledger/record/retrieval"
	"colophon/ledger/record/rules"
)

// redactedByHeader is the header with the seq of the event that erased the texts of a document.
const redactedByHeader = "Colophon-Redacted-By"

// ServeCitationsDocument sends the citations document of a set, byte for byte (spec: Citations
// document). The texts are content and not part of the log. The document of a redacted set has
// no texts.
func (h *Handlers) ServeCitationsDocument(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	elements, err := c.PathParameters()
	if err != nil {
		return err
	}
	_, view, err := h.openView(c, &query.CitationsDocumentQuestion, elements, c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	defer view.Close()
	set, err := query.CitationSet(view, elements)
	if err != nil {
		return err
	}
	// The store holds the texts once. The document holds them twice, because its buffer grows.
	if err := c.BeginAnswer(6 * h.MaxContentBytes()); err != nil {
		return err
	}
	texts, err := textsOf(view.Context, l, set.Seq)
	by, err := redactedSince(view.Context, l, set.Seq, err)
	switch {
	case err != nil:
		return err
	case by != nil:
		texts = nil
		c.Response().Header().Set(redactedByHeader, strconv.FormatUint(*by, 10))
	}
	citations := make([]rules.Citation, len(set.Citations))
	for i, one := range set.Citations {
		citations[i] = rules.Citation{ChunkHash: []byte(one.ChunkHash), SourceID: []byte(one.SourceID),
			Text: texts[i], Weight: []byte(one.Weight)}
		if one.Section != nil {
			citations[i].Section = []byte(*one.Section)
		}
	}
	c.Response().Header().Set(call.AsOfHeader, strconv.FormatUint(view.Size(), 10))
	view.Close()
	return c.AnswerText(http.StatusOK, echo.MIMEApplicationJSON, rules.AppendCitationsDocument(nil, citations))
}

// ServePinnedRetrieval sends up to top_k chunks from the sources in the request, first those that a
// citation set cites, so that a retrieval can cite the same chunks again. It also sends the hashes
// of the cited chunks that it does not send.
func (h *Handlers) ServePinnedRetrieval(c *call.Call) error {
	// The body is read before a view is opened, because a slow client must not keep a view
	// open.
	body, err := c.ReadQueryBody()
	if err != nil {
		return err
	}
	defer body.Release()
	if err := body.ReserveMemory(c.Request().Context(), RetrievalMemory(body.Bytes())); err != nil {
		return err
	}
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	chunks, topK, err := decodeRetrieval(body.Bytes())
	if err != nil {
		return err
	}
	elements, err := c.PathParameters()
	if err != nil {
		return err
	}
	_, view, err := h.openView(c, &query.PinnedRetrievalQuestion, elements, c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	defer view.Close()
	set, err := query.CitationSet(view, elements)
	if err != nil {
		return err
	}
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	answer, err := query.Retrieve(view, &set, chunks, topK, func(size int64) error {
		if most := 2 * int64(h.Limiter.Limits.MaxBodySize); size > most {
			return problem.AtPointer(http.StatusUnprocessableEntity, "/top_k", fmt.Sprintf("the chunks in the response take %d bytes, but the limit is %d bytes; request fewer chunks", size, most))
		}
		return c.BeginAnswer(pageMemory + 4*size)
	})
	if err != nil {
		return err
	}
	return sendAnswer(c, view, answer)
}

// decodeRetrieval returns top_k and the chunks of the sources in the request. It returns an error
// if the request contains required hashes, because the citation set determines them.
func decodeRetrieval(body []byte) (chunks []rules.Chunk, topK int, err error) {
	r, err := retrieval.Decode(body)
	if err != nil {
		return nil, 0, err
	}
	if r.RequiredHashes != nil {
		return nil, 0, problem.AtPointer(http.StatusBadRequest, "/required_chunk_hashes", "must be omitted, because the citation set determines the required chunks")
	}
	return r.Chunks, r.TopK, nil
}

// RetrievalMemory estimates the memory, in bytes, that the chunks of a request need in addition to
// their texts. Each chunk is a JSON object, has a hash, and is added to lookup sets.
func RetrievalMemory(body []byte) int64 {
	const ofChunk = 600
	return int64(min(bytes.Count(body, []byte("{")), retrieval.MaxChunks)) * ofChunk
}
