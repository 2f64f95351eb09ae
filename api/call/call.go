// Package call provides a request to the handlers of all routes: its caller, its share of the
// server's memory and cores, its parameters and body, and ways to answer it.
package call

import (
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"colophon/api/access"
	"colophon/api/limits"
	"colophon/ledger"
	"colophon/ledger/index"
	"colophon/ledger/record"
)

// ServerState is the state that all calls of a server share. It does not change while the server
// runs.
type ServerState struct {
	Host   *ledger.Host
	Index  *index.Store
	Log    *slog.Logger
	Limits *limits.Limits
	Counts limits.Metrics // counts refusals, and lines of batches

	// Access decides what a caller is allowed to do. If it requires no credentials, every
	// caller is Unrestricted, an identity with all scopes.
	Access       *access.Authenticator
	Unrestricted *access.Identity
	// ClientAddress returns the address of the client, even if trusted proxies forward its
	// requests.
	ClientAddress echo.IPExtractor

	Values record.Limits // limits of a record's values
}

// MaxContentBytes returns the largest size of one record's content, in bytes.
func (s *ServerState) MaxContentBytes() int64 {
	return int64(max(s.Limits.Load.MaxBody, s.Limits.Load.MaxLine))
}

// Identify authenticates a request. Without authentication every caller has all scopes.
func (s *ServerState) Identify(r *http.Request) (*access.Identity, error) {
	if !s.Access.RequiresIdentity() {
		return s.Unrestricted, nil
	}
	return s.Access.Authenticate(r)
}

// Call is one request and the resources that it holds. Only the goroutine of the request uses
// it.
type Call struct {
	echo.Context
	shared   *ServerState
	identity *access.Identity // the caller; nil until SetIdentity
	incoming limits.TimedBody
	writer   limits.Writer
	answer   limits.MemoryShare // share of the memory for reading; released when the call ends
	stream   string             // the client against which its HTTP/2 slot is counted; "" if it holds none
	// committed means that the ledger has recorded what the call requested. The memory budget
	// must not refuse the answer then; the recorded event limits its size.
	committed bool
}

// Handler answers the requests of a route.
type Handler func(c *Call) error

// NewCall prepares a call. It treats HEAD like GET; net/http drops the body of the answer.
func (s *ServerState) NewCall(context echo.Context, w http.ResponseWriter, r *http.Request) *Call {
	c := &Call{Context: context, shared: s, answer: limits.MemoryShare{Budget: s.Limits.Reading}}
	head := r.Method == http.MethodHead
	c.writer = limits.NewWriter(w, s.Limits.Load.WriteTimeout, head, s.Counts)
	if head {
		r = r.WithContext(r.Context())
		r.Method = http.MethodGet
	}
	c.Reset(c.incoming.LimitArrivalTime(r, &c.writer, s.Limits.Load.BodyTimeout), &c.writer)
	return c
}

// End releases what the call holds.
func (c *Call) End() {
	c.writer.ReleaseSlot()
	c.writer.EndWrite()
	c.answer.Release()
	if c.stream != "" {
		c.shared.Limits.Requests.Release(c.stream)
	}
}

// AbandonResponse releases the resources that were held to build a response, because the call ends with a problem
// instead.
func (c *Call) AbandonResponse() {
	c.writer.ReleaseSlot()
	c.answer.Release()
}

// Writer returns the writer of the answer.
func (c *Call) Writer() *limits.Writer { return &c.writer }

// HoldStream makes End release the slot for HTTP/2 that this client holds.
func (c *Call) HoldStream(client string) { c.stream = client }

// MarkCommitted notes that the ledger has recorded what the call requested.
func (c *Call) MarkCommitted() { c.committed = true }

// Ledger returns the ledger that the path names.
func (c *Call) Ledger() (*ledger.Ledger, error) { return c.shared.Host.Ledger(c.Param("ledger")) }

// SetIdentity sets the caller.
func (c *Call) SetIdentity(i *access.Identity) { c.identity = i }

// Identity returns the caller. If the route needs no credentials, it returns an anonymous
// identity without scopes.
func (c *Call) Identity() *access.Identity {
	if c.identity != nil {
		return c.identity
	}
	return &access.Identity{Actor: ledger.Anonymous}
}

// Actor returns the caller's name in events.
func (c *Call) Actor() string { return c.Identity().Actor }

// Address returns the client of a request: one IPv4 address, or the /64 of an IPv6 address.
func (c *Call) Address() netip.Prefix {
	ip, err := netip.ParseAddr(c.shared.ClientAddress(c.Request()))
	if err != nil {
		return netip.Prefix{} // the listener is not TCP
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// Caller returns the name under which rate limits and shares count this request: its identity
// or, for anonymous requests, its address. The name of an actor never looks like a network.
func (c *Call) Caller() string {
	if name := c.Actor(); name != ledger.Anonymous {
		return name
	}
	return c.Address().String()
}

// Holder returns the caller of a request as a holder of memory.
func (c *Call) Holder() limits.Holder {
	if name := c.Actor(); name != ledger.Anonymous {
		return limits.Holder{Name: name}
	}
	return limits.Holder{Address: c.Address()}
}

// HoldWriteMemory takes memory for writes on behalf of the caller of a request.
func (c *Call) HoldWriteMemory(bytes int64) (release func(), err error) {
	own := &limits.MemoryShare{Budget: c.shared.Limits.Writing, Who: c.Holder()}
	return own.Release, own.Take(c.Request().Context(), bytes)
}

// HoldReadMemory makes the call hold exactly n bytes of the memory for reading until it ends. A handler
// whose answer can have any length calls HoldReadMemory before it writes the header. While the handler
// builds a large answer, the call holds the memory for that work instead; see BeginAnswer.
// Before HoldReadMemory waits for more memory, it releases the call's slot for heavy work.
func (c *Call) HoldReadMemory(n int64) error {
	if c.committed { // the answer must not be refused
		return nil
	}
	if n <= smallAnswer {
		n = 0
	}
	if n <= c.answer.Bytes {
		c.answer.Shrink(n)
		return nil
	}
	c.writer.ReleaseSlot()
	c.answer.Who = c.Holder()
	return c.answer.Take(c.Request().Context(), n-c.answer.Bytes)
}

// BeginAnswer makes the call hold n bytes of memory for an answer, and then take a turn to
// compute it (BeginRead).
func (c *Call) BeginAnswer(n int64) error {
	if err := c.HoldReadMemory(n); err != nil {
		return err
	}
	return c.BeginRead()
}

// BeginRead takes a turn to compute for a request that records nothing. The turn ends when a
// piece of the response is sent, or when EndHeavyWork is called. BeginRead waits at most ServerLimits.Wait
// and then returns a 503 RejectedError. If the response has begun, it waits as long as the client
// does.
func (c *Call) BeginRead() error {
	if c.committed {
		return nil
	}
	ctx, turns := c.Request().Context(), c.shared.Limits.Reads
	if c.Response().Committed {
		return c.writer.Turn.Take(ctx, turns, c.Holder)
	}
	return c.writer.Turn.TakeOrRefuse(ctx, turns, c.Holder)
}

// BeginWrite ends the turn of the request, and marks the request as a write in progress.
func (c *Call) BeginWrite() {
	c.writer.ReleaseSlot()
	c.writer.BeginWrite(c.shared.Limits.Reads)
}

// EndWrite notes that the request records nothing until the next BeginWrite, so that reads need
// not pause for it. Until then, the request may take turns.
func (c *Call) EndWrite() { c.writer.EndWrite() }

// YieldTurn yields to other requests if the turn of this request has lasted long, and waits for its next turn.
// Work of any length calls it between its steps.
func (c *Call) YieldTurn() error { return c.writer.Turn.Yield(c.Request().Context(), c.Holder) }

// BeginDecoding begins the work on a body for which the request already holds memory. A request
// that records nothing takes a turn; a write that holds at least HeavyMemory takes a slot for
// heavy work. The slot is released when the response begins, or when EndHeavyWork is called.
func (c *Call) BeginDecoding(body *Body) error {
	if body.share.Budget == c.shared.Limits.Reading {
		return c.BeginRead()
	}
	if body.share.Bytes < limits.HeavyMemory {
		return nil
	}
	return c.writer.Slot.Take(c.Request().Context(), &c.shared.Limits.Heavy)
}

// EndHeavyWork ends the turn of a request, and releases its slot for heavy work.
func (c *Call) EndHeavyWork() { c.writer.ReleaseSlot() }
