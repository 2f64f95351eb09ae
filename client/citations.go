package client

import (
	"context"
	"net/http"

	"colophon/client/wire"
)

// CitationsService provides the queries about citation sets.
type CitationsService struct{ ledger *Ledger }

// Drift lists the citation sets about a subject, each compared with the previous one: GET /citation-sets/drift.
func (s *CitationsService) Drift(subject string, o *QueryOptions) *PagedList[wire.CitationDriftRow] {
	q := o.values()
	q.Set("subject", subject)
	return list[wire.CitationDriftRow](s.ledger, "/citation-sets/drift", q)
}

// Conflicts lists the chunks that citations attribute to several sources: GET /citation-sets/conflicts.
func (s *CitationsService) Conflicts(o *QueryOptions) *PagedList[wire.ChunkConflict] {
	return list[wire.ChunkConflict](s.ledger, "/citation-sets/conflicts", o.values())
}

// StaleSets lists the sets that cite a superseded chunk of the given source, or of any source if sourceID is
// empty: GET /citation-sets/stale.
func (s *CitationsService) StaleSets(sourceID string, o *QueryOptions) *PagedList[wire.StaleCitationRow] {
	q := o.values()
	setText(q, "source_id", sourceID)
	return list[wire.StaleCitationRow](s.ledger, "/citation-sets/stale", q)
}

// ListByChunk lists the sets that cite a chunk: GET /citation-sets/by-chunk/{hash}.
func (s *CitationsService) ListByChunk(chunkHash string, o *QueryOptions) *PagedList[wire.CitingSetRow] {
	return list[wire.CitingSetRow](s.ledger, join("citation-sets", "by-chunk", chunkHash), o.values())
}

// ListBySource lists the sets that cite a source: GET /citation-sets/by-source/{source_id}.
func (s *CitationsService) ListBySource(sourceID string, o *QueryOptions) *PagedList[wire.CitingSetRow] {
	return list[wire.CitingSetRow](s.ledger, join("citation-sets", "by-source", sourceID), o.values())
}

// Document returns the citations of a set, both as one list and grouped by section: GET
// /citation-sets/{seq}/document. It requires the content scope.
func (s *CitationsService) Document(ctx context.Context, seq uint64, o *QueryOptions) (*wire.CitationsDocument, error) {
	return answer[wire.CitationsDocument](ctx, s.ledger.client, get(s.ledger.path+join("citation-sets", decimal(seq), "document"), o.values()))
}

// PinnedRetrieval returns the chunks that a retrieval from the given sources must use to cite the same chunks as
// the citation set at seq: POST /citation-sets/{seq}/pinned-retrieval. It records nothing.
func (s *CitationsService) PinnedRetrieval(ctx context.Context, seq uint64, r wire.RetrievalRequest, o *QueryOptions) (*wire.PinnedRetrieval, error) {
	q := request{method: http.MethodPost, path: s.ledger.path + join("citation-sets", decimal(seq), "pinned-retrieval"), query: o.values(), repeat: true}
	return exchange[wire.PinnedRetrieval](ctx, s.ledger.client, q, r)
}

// SourcesService registers, revokes and reads sources.
type SourcesService struct{ ledger *Ledger }

// List lists the sources, each as of its last registration or revocation: GET /sources.
func (s *SourcesService) List(o *QueryOptions) *PagedList[wire.Source] {
	return list[wire.Source](s.ledger, "/sources", o.values())
}

// Get reads one source with its chunks: GET /sources/{source_id}.
func (s *SourcesService) Get(ctx context.Context, sourceID string, o *QueryOptions) (*wire.SourceAnswer, error) {
	return answer[wire.SourceAnswer](ctx, s.ledger.client, get(s.ledger.path+join("sources", sourceID), o.values()))
}

// Register registers a source, or replaces its registration: PUT /sources/{source_id}.
func (s *SourcesService) Register(ctx context.Context, sourceID string, r wire.SourceRegistration, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodPut, path: join("sources", sourceID), body: r, kind: wire.KindSourceRegistered}.with(o))
}

// Revoke revokes a source: DELETE /sources/{source_id}.
func (s *SourcesService) Revoke(ctx context.Context, sourceID string, r wire.SourceRevocation, o *ChangeOptions) (*wire.Receipt, error) {
	return s.ledger.write(ctx, change{method: http.MethodDelete, path: join("sources", sourceID), body: r, kind: wire.KindSourceRevoked}.with(o))
}
