package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"colophon/client/wire"
)

// Ledger gives access to one ledger on a server. Its services are safe for concurrent use.
type Ledger struct {
	client *Client
	name   string
	path   string

	Records   *RecordsService   // posts and reads records, and changes their states
	Events    *EventsService    // reads the events in order
	Log       *LogService       // reads the transparency log and its proofs
	Drift     *DriftService     // finds what caused outputs to change
	RunDAGs   *RunDAGsService   // queries records of question-answering runs
	Citations *CitationsService // queries citation sets
	Sources   *SourcesService   // registers, revokes and reads cited sources
	Paths     *PathsService     // queries and validates paths through branching stories
	Producers *ProducersService // finds gaps and duplicates in the numbering of records
}

// Ledger returns the ledger with this name. It sends no request, and does not check that the ledger exists.
func (c *Client) Ledger(name string) *Ledger {
	l := &Ledger{client: c, name: name, path: join("v1", "ledgers", name)}
	l.Records, l.Events, l.Log = &RecordsService{l}, &EventsService{l}, &LogService{l}
	l.Drift, l.RunDAGs = &DriftService{l}, &RunDAGsService{l}
	l.Citations, l.Sources = &CitationsService{l}, &SourcesService{l}
	l.Paths, l.Producers = &PathsService{l}, &ProducersService{l}
	return l
}

// Name returns the ledger's name.
func (l *Ledger) Name() string { return l.name }

// Path returns the escaped URL path of the ledger, for use with [Client.Do].
func (l *Ledger) Path() string { return l.path }

// list returns a PagedList that reads the given path, which is relative to the path of the ledger.
func list[T any](l *Ledger, path string, query map[string][]string) *PagedList[T] {
	return &PagedList[T]{client: l.client, path: l.path + path, query: query}
}

// Describe returns the name, keys, settings and head of the ledger: GET /v1/ledgers/{ledger}.
func (l *Ledger) Describe(ctx context.Context) (*wire.LedgerDescription, error) {
	return answer[wire.LedgerDescription](ctx, l.client, get(l.path, nil))
}

// Stats counts the ledger's records, refusals and checks: GET /stats.
func (l *Ledger) Stats(ctx context.Context) (*wire.Stats, error) {
	return answer[wire.Stats](ctx, l.client, get(l.path+"/stats", nil))
}

// LiveSummary returns the ledger's current size, counters and newest events: GET /live.
func (l *Ledger) LiveSummary(ctx context.Context) (*wire.LiveSummary, error) {
	return answer[wire.LiveSummary](ctx, l.client, get(l.path+"/live", nil))
}

// Search finds what a text might refer to: GET /search. The text can be, for example, a hash, a value from
// records, or words from a prompt.
func (l *Ledger) Search(ctx context.Context, text string, o *QueryOptions) (*wire.SearchAnswer, error) {
	q := o.values()
	q.Set("q", text)
	return answer[wire.SearchAnswer](ctx, l.client, get(l.path+"/search", q))
}

// Rates counts records per period, broken down by check results and by drift: GET /rates. If since or until is
// zero, the range is unbounded on that side. step is the length of each period, truncated to whole seconds; if it
// is 0, the server chooses the length.
func (l *Ledger) Rates(ctx context.Context, since, until time.Time, step time.Duration, o *QueryOptions) (*wire.Rates, error) {
	q := o.values()
	setTime(q, "since", since)
	setTime(q, "until", until)
	setCount(q, "step", uint64(step/time.Second))
	return answer[wire.Rates](ctx, l.client, get(l.path+"/rates", q))
}

// PayloadMemberSecret returns the secret with which the ledger computes the digests of payload
// members: GET /member-secret. It requires the content scope.
func (l *Ledger) PayloadMemberSecret(ctx context.Context) (*wire.PayloadMemberSecret, error) {
	return answer[wire.PayloadMemberSecret](ctx, l.client, get(l.path+"/member-secret", nil))
}

// IndexPartQuery selects one part of the index. The zero value selects the first part at the
// current tree size.
type IndexPartQuery struct {
	AsOf   uint64 // tree size at which the index is read; 0 means the current size
	Cursor string // Next from the previous part; if set, AsOf must equal the AsOf of that part
	// DigestOnly requests the digest of the rows without the rows.
	DigestOnly bool
}

// IndexPart returns one part of the server's index: GET /index. It requires the admin and read
// scopes.
func (l *Ledger) IndexPart(ctx context.Context, q IndexPartQuery) (*wire.IndexPart, error) {
	query := make(url.Values)
	setCount(query, "as_of", q.AsOf)
	setText(query, "cursor", q.Cursor)
	if q.DigestOnly {
		query.Set("rows", "false")
	}
	return answer[wire.IndexPart](ctx, l.client, get(l.path+"/index", query))
}

// Freeze permanently stops all writes to the ledger: POST /freeze. The call is not repeated after a failure.
// Freezing a frozen ledger changes nothing.
func (l *Ledger) Freeze(ctx context.Context) (*wire.LedgerDescription, error) {
	return answer[wire.LedgerDescription](ctx, l.client, request{method: http.MethodPost, path: l.path + "/freeze"})
}

// SetLogVisibility makes the log public or private: PUT /visibility. visibility is "public" or
// "private". The call is not repeated after a failure.
func (l *Ledger) SetLogVisibility(ctx context.Context, visibility string) (*wire.LedgerDescription, error) {
	return exchange[wire.LedgerDescription](ctx, l.client, request{method: http.MethodPut, path: l.path + "/visibility"}, wire.VisibilityChange{LogVisibility: visibility})
}

// SetUnregisteredSourcePolicy makes the ledger accept or reject citation sets with sources that are not registered: PUT
// /unregistered-sources. policy is accept or reject. The call is not repeated after a failure.
func (l *Ledger) SetUnregisteredSourcePolicy(ctx context.Context, policy string) (*wire.LedgerDescription, error) {
	r := request{method: http.MethodPut, path: l.path + "/unregistered-sources"}
	return exchange[wire.LedgerDescription](ctx, l.client, r, wire.UnregisteredSourcesChange{UnregisteredSources: policy})
}

// SetOTLPContentPolicy makes the ledger keep the content of generations that arrive over OTLP, or only its hashes:
// PUT /otlp-content. policy is keep or hashes. The call is not repeated after a failure.
func (l *Ledger) SetOTLPContentPolicy(ctx context.Context, policy string) (*wire.LedgerDescription, error) {
	r := request{method: http.MethodPut, path: l.path + "/otlp-content"}
	return exchange[wire.LedgerDescription](ctx, l.client, r, wire.OTLPContentChange{OTLPContent: policy})
}

// AdvanceKeyRotation performs one step of a key rotation: POST /keys. step is rotate or retire. The call is not repeated
// after a failure. After retire, receipts verify with the new key only.
func (l *Ledger) AdvanceKeyRotation(ctx context.Context, step string) (*wire.Receipt, error) {
	return l.write(ctx, change{method: http.MethodPost, path: "/keys", body: wire.KeyRotationStep{Step: step}, kind: wire.KindKeyRotated, unkeyed: true})
}

// LedgersService lists and creates ledgers.
type LedgersService struct{ client *Client }

// List returns the ledgers for which the caller has a grant: GET /v1/ledgers.
func (s *LedgersService) List(ctx context.Context) ([]wire.LedgerDescription, error) {
	ledgers, err := answer[wire.LedgerList](ctx, s.client, get("/v1/ledgers", nil))
	if err != nil {
		return nil, err
	}
	return ledgers.Ledgers, nil
}

// Create creates a ledger: POST /v1/ledgers. The call is not repeated after a failure. If you repeat it,
// [ErrConflict] can mean that the first attempt succeeded.
func (s *LedgersService) Create(ctx context.Context, ledger wire.CreateLedgerRequest) (*wire.LedgerDescription, error) {
	return exchange[wire.LedgerDescription](ctx, s.client, request{method: http.MethodPost, path: "/v1/ledgers"}, ledger)
}

// ServerService provides the calls that do not concern a single ledger.
type ServerService struct{ client *Client }

// SignInMethods returns the methods by which callers can sign in: GET /sign-in. It needs no credentials.
func (s *ServerService) SignInMethods(ctx context.Context) (*wire.SignInMethods, error) {
	return answer[wire.SignInMethods](ctx, s.client, get("/sign-in", nil))
}

// ComputeHashes returns the hashes and checks that a ledger would compute for a record: POST /v1/compute/{kind}. It
// records nothing.
func (s *ServerService) ComputeHashes(ctx context.Context, record wire.Record) (*wire.ComputeAnswer, error) {
	r := request{method: http.MethodPost, path: join("v1", "compute", string(record.RecordKind())), repeat: true}
	return exchange[wire.ComputeAnswer](ctx, s.client, r, record)
}

// CacheKey returns the cache key for the given dimensions: POST /v1/compute/cache-key.
func (s *ServerService) CacheKey(ctx context.Context, dimensions wire.CacheDimensions) (*wire.CacheKeyAnswer, error) {
	return exchange[wire.CacheKeyAnswer](ctx, s.client, request{method: http.MethodPost, path: "/v1/compute/cache-key", repeat: true}, dimensions)
}

// QuestionHash returns the hash of a question: POST /v1/compute/question-hash.
func (s *ServerService) QuestionHash(ctx context.Context, question wire.QuestionHashRequest) (*wire.QuestionHashAnswer, error) {
	return exchange[wire.QuestionHashAnswer](ctx, s.client, request{method: http.MethodPost, path: "/v1/compute/question-hash", repeat: true}, question)
}

// MakeSnapshot makes the server write a copy of its database to its data folder, for use in a backup: POST
// /v1/snapshots. The call is not repeated after a failure, and its duration is limited only by ctx.
func (s *ServerService) MakeSnapshot(ctx context.Context) (*wire.Snapshot, error) {
	return answer[wire.Snapshot](ctx, s.client, request{method: http.MethodPost, path: "/v1/snapshots", slow: true})
}

// Version returns the server's version: GET /version.
func (s *ServerService) Version(ctx context.Context) (*wire.Versions, error) {
	return answer[wire.Versions](ctx, s.client, get("/version", nil))
}

// Health returns the server's status as one line: GET /healthz. If the error is nil, the server is running. The call
// is not repeated.
func (s *ServerService) Health(ctx context.Context) (string, error) {
	return s.text(ctx, request{method: http.MethodGet, path: "/healthz"})
}

// Readiness returns the server's status as one line: GET /readyz. If the error is nil, the server accepts requests;
// [ErrUnavailable] means that it is not ready. The call is not repeated.
func (s *ServerService) Readiness(ctx context.Context) (string, error) {
	return s.text(ctx, request{method: http.MethodGet, path: "/readyz"})
}

// Metrics returns the server's metrics in the Prometheus text format: GET /metrics. Some servers serve them at a
// separate address.
func (s *ServerService) Metrics(ctx context.Context) (string, error) {
	return s.text(ctx, get("/metrics", nil))
}

// OpenAPI returns the OpenAPI description of the API in YAML: GET /openapi.yaml.
func (s *ServerService) OpenAPI(ctx context.Context) (string, error) {
	return s.text(ctx, get("/openapi.yaml", nil))
}

func (s *ServerService) text(ctx context.Context, r request) (string, error) {
	text, err := s.client.call(ctx, r)
	return string(text), err
}
