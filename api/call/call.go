// Package call defines Call, which the handlers of all routes use to read a request and answer it.
// A Call also provides the request's caller and its share of the server's memory and cores.
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

// ServerState is the state that all calls to a server share. It does not change while the server
// runs.
type ServerState struct {
	Host         *ledger.Host
	Index        *index.Store
	Logger       *slog.Logger
	Limiter      *limits.Limiter
	LimitMetrics limits.Metrics // counts refusals and answered batch lines

	// Authenticator determines who a caller is and what the caller may do.
	Authenticator *access.Authenticator
	// UnrestrictedIdentity is the identity of every caller if the server requires no credentials.
	// It has all scopes.
	UnrestrictedIdentity *access.Identity
	// ClientAddress returns the address of the client, even if trusted proxies forward its
	// requests.
	ClientAddress echo.IPExtractor

	RecordLimits record.Limits // limits on the values in a record
}

// MaxContentBytes returns the maximum size of one record's content, in bytes.
func (s *ServerState) MaxContentBytes() int64 {
	return int64(max(s.Limiter.Limits.MaxBodySize, s.Limiter.Limits.MaxLineSize))
}

// Identify authenticates a request. If the server requires no credentials, it returns an identity
// with all scopes.
func (s *ServerState) Identify(r *http.Request) (*access.Identity, error) {
	if !s.Authenticator.RequiresIdentity() {
		return s.UnrestrictedIdentity, nil
	}
	return s.Authenticator.Authenticate(r)
}

// Call is one request and the resources that it holds. It must be used only by the goroutine that
// handles the request.
type Call struct {
	echo.Context
	shared   *ServerState
	identity *access.Identity // the caller; nil until SetIdentity
	incoming limits.TimedBody
	writer   limits.Writer
	answer   limits.MemoryShare // share of the memory budget for reads; released when the call ends
	stream   string             // client to which the call's HTTP/2 slot is charged; "" if the call holds none
	// committed means that the ledger has recorded what the call requested. From then on, the
	// memory budget must not refuse the answer. The size of the recorded event limits the size
	// of the answer.
	committed bool
}

// Handler answers the requests of a route.
type Handler func(c *Call) error

// NewCall prepares a call. It treats HEAD like GET; net/http drops the body of the answer.
func (s *ServerState) NewCall(context echo.Context, w http.ResponseWriter, r *http.Request) *Call {
	c := &Call{Context: context, shared: s, answer: limits.MemoryShare{Budget: s.Limiter.ReadMemory}}
	head := r.Method == http.MethodHead
	c.writer = limits.NewWriter(w, s.Limiter.Limits.WriteTimeout, head, s.LimitMetrics)
	if head {
		r = r.WithContext(r.Context())
		r.Method = http.MethodGet
	}
	c.Reset(c.incoming.LimitArrivalTime(r, &c.writer, s.Limiter.Limits.BodyTimeout), &c.writer)
	return c
}

// End releases the resources that the call holds.
func (c *Call) End() {
	c.writer.EndHeavyWork()
	c.writer.EndWriteRequest()
	c.answer.Release()
	if c.stream != "" {
		c.shared.Limiter.StreamSlots.Release(c.stream)
	}
}

// AbandonResponse releases the resources held to build a response that will not be sent, for
// example because the call ends with a problem instead.
func (c *Call) AbandonResponse() {
	c.writer.EndHeavyWork()
	c.answer.Release()
}

// Writer returns the writer to which the answer is written.
func (c *Call) Writer() *limits.Writer { return &c.writer }

// HoldStreamSlot records that this call holds one of client's HTTP/2 slots. End releases the slot.
func (c *Call) HoldStreamSlot(client string) { c.stream = client }

// MarkCommitted records that the ledger has stored what the call requested.
func (c *Call) MarkCommitted() { c.committed = true }

// Ledger returns the ledger named in the request's path.
func (c *Call) Ledger() (*ledger.Ledger, error) { return c.shared.Host.Ledger(c.Param("ledger")) }

// SetIdentity sets the caller.
func (c *Call) SetIdentity(i *access.Identity) { c.identity = i }

// Identity returns the caller. If the route needs no credentials, it returns an anonymous
// identity without scopes.
func (c *Call) Identity() *access.Identity {
	if c.identity != nil {
		return c.identity
	}
	return &access.Identity{Actor: ledger.AnonymousActor}
}

// Actor returns the name under which events record the caller.
func (c *Call) Actor() string { return c.Identity().Actor }

// ClientAddress returns the address of the client: a single IPv4 address, or the /64 network of an
// IPv6 address.
func (c *Call) ClientAddress() netip.Prefix {
	ip, err := netip.ParseAddr(c.shared.ClientAddress(c.Request()))
	if err != nil {
		return netip.Prefix{} // the connection is not a TCP connection
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// LimitKey returns the name under which this request counts toward rate limits and fair shares. This
// is the name of the actor or, for an anonymous caller, its network. An actor's name never looks
// like a network, so the two kinds of names cannot collide.
func (c *Call) LimitKey() string {
	if name := c.Actor(); name != ledger.AnonymousActor {
		return name
	}
	return c.ClientAddress().String()
}

// Holder returns the actor or the address to which the memory budgets charge this request.
func (c *Call) Holder() limits.Holder {
	if name := c.Actor(); name != ledger.AnonymousActor {
		return limits.Holder{Name: name}
	}
	return limits.Holder{Address: c.ClientAddress()}
}

// HoldWriteMemory takes the given number of bytes from the memory budget for writes, on behalf of
// the caller. release gives them back.
func (c *Call) HoldWriteMemory(bytes int64) (release func(), err error) {
	own := &limits.MemoryShare{Budget: c.shared.Limiter.WriteMemory, Holder: c.Holder()}
	return own.Release, own.Take(c.Request().Context(), bytes)
}

// HoldReadMemory makes the call hold exactly n bytes of the memory budget for reads until the call
// ends. A handler whose answer can have any length must call HoldReadMemory before it writes the
// header. A handler that builds a large answer first reserves memory for that work with BeginAnswer.
// If HoldReadMemory must wait for more memory, it first releases the call's slot for heavy work.
func (c *Call) HoldReadMemory(n int64) error {
	if c.committed { // the answer to a write must not be refused
		return nil
	}
	if n <= smallAnswer {
		n = 0
	}
	if n <= c.answer.Bytes {
		c.answer.ShrinkTo(n)
		return nil
	}
	c.writer.EndHeavyWork()
	c.answer.Holder = c.Holder()
	return c.answer.Take(c.Request().Context(), n-c.answer.Bytes)
}

// BeginAnswer makes the call hold n bytes of memory for an answer and then, like BeginRead, waits
// for a turn to compute it.
func (c *Call) BeginAnswer(n int64) error {
	if err := c.HoldReadMemory(n); err != nil {
		return err
	}
	return c.BeginRead()
}

// BeginRead waits for a turn to compute the answer to a request that records nothing. The turn ends when a
// piece of the response is sent, or when EndHeavyWork is called. BeginRead waits for at most
// ServerLimits.MaxWait and then returns a RejectedError with status 503. If the response has already begun,
// it waits for as long as the client does.
func (c *Call) BeginRead() error {
	if c.committed {
		return nil
	}
	ctx, turns := c.Request().Context(), c.shared.Limiter.ReadScheduler
	if c.Response().Committed {
		return c.writer.Turn.Take(ctx, turns, c.Holder)
	}
	return c.writer.Turn.TakeOrRefuse(ctx, turns, c.Holder)
}

// BeginWrite ends the turn of the request, and marks the request as a write in progress.
func (c *Call) BeginWrite() {
	c.writer.EndHeavyWork()
	c.writer.BeginWriteRequest(c.shared.Limiter.ReadScheduler)
}

// EndWrite tells the scheduler that the request records nothing until the next BeginWrite. Reads
// then need not pause for the request, and the request itself can take turns.
func (c *Call) EndWrite() { c.writer.EndWriteRequest() }

// YieldTurn lets other requests compute if this request's turn has lasted long, and then waits for
// its next turn. Work that can take any amount of time must call YieldTurn between steps.
func (c *Call) YieldTurn() error { return c.writer.Turn.Yield(c.Request().Context(), c.Holder) }

// BeginDecoding waits until the request can decode body, for which it already holds memory. It must
// be called before decoding. A request that records nothing waits for a turn. A write that holds at
// least HeavyThresholdBytes waits for a slot for heavy work. The slot is released when the response begins
// or when EndHeavyWork is called.
func (c *Call) BeginDecoding(body *Body) error {
	if body.share.Budget == c.shared.Limiter.ReadMemory {
		return c.BeginRead()
	}
	if body.share.Bytes < limits.HeavyThresholdBytes {
		return nil
	}
	return c.writer.HeavySlot.Take(c.Request().Context(), &c.shared.Limiter.HeavyWorkLimiter)
}

// EndHeavyWork ends the turn of a request, and releases its slot for heavy work.
func (c *Call) EndHeavyWork() { c.writer.EndHeavyWork() }
