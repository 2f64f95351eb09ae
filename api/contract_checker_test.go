package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/stretchr/testify/require"

	"colophon"
	"colophon/api"
	"colophon/api/limits"
	"colophon/api/otlp"
	"colophon/internal/size"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/keystore"
	questions "colophon/ledger/query"
	"colophon/storage"
	"colophon/storage/memory"
)

// contract is the parsed openapi.yaml, against which the tests check requests and responses.
type contract struct {
	*openapi3.T
}

const ndjson = "application/x-ndjson"

func loadContract(t testing.TB) contract {
	t.Helper()
	doc, err := parsedContract()
	require.NoError(t, err)
	return contract{doc}
}

// parsedContract parses the contract once, because parsing takes a tenth of a second. All tests share
// the result, so they must leave it unchanged.
var parsedContract = sync.OnceValues(func() (*openapi3.T, error) {
	openapi3filter.RegisterBodyDecoder(ndjson, decodeLines)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/javascript", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/css", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("image/svg+xml", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder(otlp.ProtobufMediaType, openapi3filter.FileBodyDecoder)
	return openapi3.NewLoader().LoadFromData(colophon.OpenAPI)
})

// decodeLines decodes NDJSON as an array, which is how the contract describes it.
func decodeLines(body io.Reader, header http.Header, schema *openapi3.SchemaRef, encoding openapi3filter.EncodingFn) (any, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	lines := []any{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil, fmt.Errorf("line %d does not end with a line feed", len(lines)+1)
		}
		value, err := openapi3filter.JSONBodyDecoder(bytes.NewReader(line), header, schema, encoding)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, value)
	}
	return lines, nil
}

// call describes one request in terms of the contract.
type call struct {
	method, route string // route as in the contract: /v1/ledgers/{ledger}
	path          map[string]string
	query         string
	header        map[string]string
	body          []byte
}

// request returns the HTTP request for the call.
func (c call) request(t testing.TB, base string) *http.Request {
	t.Helper()
	url := base + c.route
	for name, value := range c.path {
		url = strings.ReplaceAll(url, "{"+name+"}", value)
	}
	require.NotContains(t, url, "{")
	r, err := http.NewRequest(c.method, url+c.query, bytes.NewReader(c.body))
	require.NoError(t, err)
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	return r
}

// reply is a response whose body has been read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// input returns the input with which kin-openapi validates the call.
func (c contract) input(k call, r *http.Request) (*openapi3filter.RequestValidationInput, error) {
	item := c.Paths.Value(k.route)
	if item == nil || item.GetOperation(k.method) == nil {
		return nil, fmt.Errorf("the contract has no %s %s", k.method, k.route)
	}
	r.Body = io.NopCloser(bytes.NewReader(k.body))
	return &openapi3filter.RequestValidationInput{
		Request:    r,
		PathParams: k.path,
		Route:      &routers.Route{Spec: c.T, Path: k.route, PathItem: item, Method: k.method, Operation: item.GetOperation(k.method)},
		Options: &openapi3filter.Options{
			IncludeResponseStatus:             true,
			RejectWhenRequestBodyNotSpecified: true,
			SkipSettingDefaults:               true,
			// The test server has no authentication; matrix_test.go tests access.
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}, nil
}

// checkRequest returns nil if the contract allows the request.
func (c contract) checkRequest(k call, r *http.Request) error {
	input, err := c.input(k, r)
	if err != nil {
		return err
	}
	for name := range r.URL.Query() {
		if !documents(input.Route, openapi3.ParameterInQuery, name) {
			return fmt.Errorf("the contract has no query parameter %q", name)
		}
	}
	return openapi3filter.ValidateRequest(context.Background(), input)
}

func documents(route *routers.Route, in, name string) bool {
	// The contract uses label:{name} to describe all parameters whose names begin with "label:".
	if prefix, _, open := strings.Cut(name, ":"); open {
		name = prefix + ":{name}"
	}
	return route.Operation.Parameters.GetByInAndName(in, name) != nil || route.PathItem.Parameters.GetByInAndName(in, name) != nil
}

// commonHeaders lists headers that any response can have. The contract describes them once, in its
// introduction, and not for each response.
var commonHeaders = []string{"Cache-Control", "Content-Type", "Content-Length", "Date", "Referrer-Policy", "X-Content-Type-Options"}

// checkResponse returns nil if the response conforms to the contract, which must describe its
// status, all its headers, and its body.
func (c contract) checkResponse(k call, r *http.Request, a reply) error {
	input, err := c.input(k, r)
	if err != nil {
		return err
	}
	response := input.Route.Operation.Responses.Status(a.status)
	if response == nil {
		return fmt.Errorf("the contract has no status %d for %s %s", a.status, k.method, k.route)
	}
	for name := range a.header {
		if _, ok := response.Value.Headers[name]; !ok && !slices.Contains(commonHeaders, name) {
			return fmt.Errorf("the contract has no header %s in the %d of %s %s", name, a.status, k.method, k.route)
		}
	}
	if len(response.Value.Content) == 0 && len(a.body) > 0 {
		return fmt.Errorf("the contract has no body in the %d of %s %s", a.status, k.method, k.route)
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header, Options: input.Options,
	}
	return openapi3filter.ValidateResponse(context.Background(), output.SetBodyBytes(a.body))
}

// server is a real HTTP server whose responses are checked against the contract.
type server struct {
	contract
	api    *api.Server
	url    string
	disk   *disk
	client *http.Client
}

// maxBody is the test server's limit on bodies, in bytes.
const maxBody = 64 << 10

func newServer(t testing.TB) *server { return newServerFor(t, maxBody) }

// newServerFor is like newServer, but limits bodies to maxBody bytes.
func newServerFor(t testing.TB, maxBody int) *server {
	t.Helper()
	s := &server{contract: loadContract(t), disk: &disk{Database: memory.New()}}
	host, err := ledger.OpenHost(t.Context(), s.disk, keystore.KeyFiles{Dir: t.TempDir()}, func(string) ledger.Config { return ledger.Config{} })
	require.NoError(t, err)
	_, err = host.Create(t.Context(), ledger.CreateOptions{Name: ledger.DefaultName})
	require.NoError(t, err)
	derived, err := questions.OpenIndex(index.Config{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	s.api, err = api.New(api.Config{Host: host, Index: derived, Version: "v0", ServerLimits: limits.ServerLimits{MaxBodySize: size.Bytes(maxBody), MaxLineSize: size.Bytes(maxBody),
		IndexWait: time.Minute, BadRequestRate: 1e6}}) // IndexWait: the index can lag on a busy machine; BadRequestRate: tests send many bad requests
	require.NoError(t, err)
	listener := httptest.NewServer(s.api)
	t.Cleanup(func() {
		listener.Close()
		require.NoError(t, errors.Join(derived.Close(), host.Close()))
	})
	s.url, s.client = listener.URL, listener.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// do sends a request, which the contract must allow. It requires that the response has the given
// status and conforms to the contract.
func (s *server) do(t testing.TB, k call, status int) reply {
	t.Helper()
	require.NoError(t, s.checkRequest(k, k.request(t, s.url)), "%s", k.body)
	return s.send(t, k, status)
}

// send is like do, but it also sends requests that the contract does not allow.
func (s *server) send(t testing.TB, k call, status int) reply {
	t.Helper()
	response, err := s.client.Do(k.request(t, s.url))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	a := reply{response.StatusCode, response.Header, body}
	require.Equal(t, status, a.status, "%s %s: %.2000s", k.method, k.route, body)
	require.NoError(t, s.checkResponse(k, k.request(t, s.url), a), "%.2000s", body)
	return a
}

func (a reply) decode(t testing.TB, to any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, to), "%s", a.body)
}

// disk is an in-memory database that can simulate a full disk or the loss of content.
type disk struct {
	storage.Database
	full, lost atomic.Bool
	room       atomic.Int64 // number of commits after which the disk is full; 0 or less means never
}

func (d *disk) Ledger(ctx context.Context, name string) (storage.Store, error) {
	s, err := d.Database.Ledger(ctx, name)
	return faultyStore{s, d}, err
}

func (d *disk) CreateLedger(ctx context.Context, info storage.LedgerInfo) (storage.Store, error) {
	s, err := d.Database.CreateLedger(ctx, info)
	return faultyStore{s, d}, err
}

type faultyStore struct {
	storage.Store
	disk *disk
}

func (a faultyStore) CheckWritable(ctx context.Context) error {
	if a.disk.full.Load() {
		return storage.ErrNoSpace
	}
	return a.Store.CheckWritable(ctx)
}

func (a faultyStore) Commit(ctx context.Context, old storage.Head, b storage.Batch) error {
	if a.disk.room.Add(-1) == 0 {
		a.disk.full.Store(true)
	}
	return a.Store.Commit(ctx, old, b)
}

func (a faultyStore) Content(ctx context.Context, digest storage.Hash) ([]byte, error) {
	if a.disk.lost.Load() {
		return nil, storage.ErrNotFound
	}
	return a.Store.Content(ctx, digest)
}
