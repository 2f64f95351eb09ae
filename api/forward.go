package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/storage"
)

// forwardedHeader is the header that counts how many times a request has been forwarded: "1" or
// "2". A request is forwarded a second time if the first server that it was forwarded to has just
// handed the ledger over to another.
const forwardedHeader = "Colophon-Forwarded"

// forwardedNext returns the next value of forwardedHeader. ok is false if the request must not be
// forwarded again.
func forwardedNext(value string) (next string, ok bool) {
	switch value {
	case "":
		return "1", true
	case "1":
		return "2", true
	}
	return "", false
}

const (
	// connectTime is the time limit for connecting to another server.
	connectTime = 2 * time.Second
	// catchUpTime limits how long a forwarded response is delayed until this server can show the
	// events that the response confirms.
	catchUpTime = time.Second
	// silenceTimeout is how long this server waits for data from a server that no longer writes the
	// ledger.
	silenceTimeout = 2 * time.Second
	// holderPause is the time between two lookups of the server that writes a ledger.
	holderPause = 20 * time.Millisecond
)

// forwarder forwards requests for a ledger to the server that writes it, if that is another server.
type forwarder struct {
	*Server
	transport *http.Transport
	requests  *prometheus.CounterVec // by outcome
}

func newForwarder(s *Server) *forwarder {
	return &forwarder{
		Server: s,
		// HTTP/1.1, because HTTP/2 costs twice as much processor time (BenchmarkForwardProtocol). Also, a
		// broken connection affects only one request.
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: connectTime}).DialContext,
			TLSHandshakeTimeout: connectTime,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true, // keep the encoding that the client asked for
		},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colophon_forwarded_requests_total",
			Help: "Forwarded requests for ledgers that another server writes, by outcome: answered, broken (the connection failed), or no_holder (no server writes the ledger).",
		}, []string{"outcome"}),
	}
}

// writes reports whether the handler writes to the ledger named in the path.
func (r route) writes() bool {
	return r.method != http.MethodGet && r.needs.Target == call.TargetPathLedger && (r.needs.AnyOf|r.needs.AllOf)&(access.ScopeWrite|access.ScopeAdmin) != 0
}

// wrap forwards writes, and reads that need a signature, if another server writes the ledger.
func (f *forwarder) wrap(r route, handler call.Handler) call.Handler {
	if r.writes() {
		return func(c *call.Call) error { return f.write(c, handler, strings.HasSuffix(r.path, "/batch")) }
	}
	if r.method != http.MethodGet {
		return handler
	}
	return func(c *call.Call) error {
		err := handler(c)
		if !errors.Is(err, storage.ErrLeaseNotHeld) || c.Response().Committed {
			return err
		}
		writerURL, elsewhere := f.config.WriterURL(c.Param("ledger"))
		if !elsewhere {
			return err
		}
		c.AbandonResponse()
		sent, err := f.send(c, writerURL, false)
		if !sent {
			return f.unsent(c, writerURL, err)
		}
		return err
	}
}

// write handles a write on this server, or forwards it to the server that writes the ledger. While
// the ledger moves from one server to another, write waits for up to ServerLimits.MaxWait.
func (f *forwarder) write(c *call.Call, handler call.Handler, batch bool) error {
	ctx := c.Request().Context()
	deadline := time.Now().Add(f.shared.Limiter.Limits.MaxWait)
	for {
		writerURL, elsewhere := f.config.WriterURL(c.Param("ledger"))
		if !elsewhere {
			return handler(c)
		}
		sent, err := f.send(c, writerURL, batch)
		if sent {
			return err
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return f.unsent(c, writerURL, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(holderPause):
		}
	}
}

// unsent returns the error to report for a request that reached no server. err is the error that
// send returned.
func (f *forwarder) unsent(c *call.Call, writerURL string, err error) error {
	if errors.Is(err, storage.ErrLeaseNotHeld) {
		f.requests.WithLabelValues("no_holder").Inc()
		return storage.ErrLeaseNotHeld
	}
	f.requests.WithLabelValues("broken").Inc()
	f.config.Logger.Warn("the server that writes the ledger cannot be reached", "ledger", c.Param("ledger"), "server", writerURL, "error", err)
	return limits.NewRejectedError("", http.StatusServiceUnavailable, time.Second, "the server that writes the ledger is not responding; nothing was written; try again")
}

// send forwards a call to the server at writerURL and relays its response. An empty URL means that
// no server writes the ledger. batch means that the request and the response are streamed at the
// same time. sent is false if the server received no part of the request, which can then be sent
// elsewhere.
func (f *forwarder) send(c *call.Call, writerURL string, batch bool) (sent bool, err error) {
	r := c.Request()
	forwarded, ok := forwardedNext(r.Header.Get(forwardedHeader))
	if !ok || writerURL == "" {
		return false, storage.ErrLeaseNotHeld
	}
	target, err := url.Parse(writerURL)
	if err != nil {
		return true, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	w := &forwarding{call: c, controller: http.NewResponseController(c.Response().Writer)}
	if batch {
		if err := w.stream(f.shared.Limiter.Limits.BatchIdleTimeout); err != nil {
			return true, err
		}
	}
	defer func() {
		if sent {
			w.end()
		}
	}()
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = target.Scheme, target.Host, target.Host, ""
	if out.Body = nil; r.Body != nil && r.Body != http.NoBody {
		out.Body = w
		// RoundTrip waits for its last read of the body, so canceling ctx must end that read.
		defer context.AfterFunc(ctx, w.stop)()
	}
	for _, name := range perConnection {
		out.Header.Del(name)
	}
	out.Header.Set(echo.HeaderXForwardedFor, f.shared.ClientAddress(r))
	out.Header.Set(forwardedHeader, forwarded)
	w.moved.Store(time.Now().UnixNano())
	go f.watch(ctx, cancel, c.Param("ledger"), writerURL, &w.moved)
	answer, err := f.transport.RoundTrip(out)
	if err == nil {
		defer answer.Body.Close()
		err = f.relay(c, w, answer, batch)
	}
	if err == nil {
		f.requests.WithLabelValues("answered").Inc()
		return true, nil
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return false, err
	}
	f.requests.WithLabelValues("broken").Inc()
	if problem := w.unreadable(f.shared.Limiter.Limits.BodyTimeout); problem != nil {
		return true, problem
	}
	f.config.Logger.Warn("the server that writes the ledger did not answer a request", "ledger", c.Param("ledger"), "server", writerURL, "error", err)
	return true, limits.NewRejectedError("", http.StatusServiceUnavailable, time.Second,
		"the server that writes the ledger has not answered, and it is unknown whether anything was written; try again with the same idempotency key")
}

// perConnection lists the headers that are not forwarded, either because they apply only to a
// single connection or because this server has already checked them.
var perConnection = []string{
	echo.HeaderConnection, "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", echo.HeaderUpgrade,
	"Expect", "Forwarded", echo.HeaderXForwardedFor, echo.HeaderOrigin, "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest",
}

// watch cancels a forwarded request if the server that received it no longer writes the ledger and
// no data has been transferred for silenceTimeout. Such a server might be suspended, in which case
// its connections would stay open.
func (f *forwarder) watch(ctx context.Context, cancel context.CancelFunc, name, writerURL string, moved *atomic.Int64) {
	tick := time.NewTicker(silenceTimeout / 8)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if to, elsewhere := f.config.WriterURL(name); elsewhere && to == writerURL {
				moved.Store(now.UnixNano())
			} else if now.Sub(time.Unix(0, moved.Load())) > silenceTimeout {
				cancel()
			}
		}
	}
}

// relay sends the other server's response to the client. It first waits until this server can show the
// events that the response confirms. For a batch, it waits at the end of the response instead.
func (f *forwarder) relay(c *call.Call, w *forwarding, answer *http.Response, batch bool) error {
	h := c.Response().Header()
	for name, values := range answer.Header {
		h[name] = values
	}
	for _, name := range perConnection {
		h.Del(name)
	}
	if !batch {
		// The other server answered before it received the whole request body. Ending the body closes
		// the connection to that server, which could lose the response, so the response is read first.
		var text io.Reader = answer.Body
		if !w.ended() {
			kept, err := io.ReadAll(io.LimitReader(answer.Body, limits.MaxDrainBytes+1))
			if err == nil && len(kept) > limits.MaxDrainBytes {
				err = errors.New("the server that writes the ledger sent a long response before it had received the whole request body")
			}
			if err != nil {
				return err
			}
			text = strings.NewReader(string(kept))
			h.Del(echo.HeaderContentLength)
			w.stop()
		}
		f.catchUp(c)
		c.Response().WriteHeader(answer.StatusCode)
		_, err := io.Copy(c.Response(), text)
		return err
	}
	c.Response().WriteHeader(answer.StatusCode)
	if err := w.controller.Flush(); err != nil {
		return err
	}
	piece := make([]byte, limits.MaxWriteBytes)
	for {
		n, err := answer.Body.Read(piece)
		w.progress()
		if n > 0 {
			_, failed := c.Response().Write(piece[:n])
			if failed = errors.Join(failed, w.controller.Flush()); failed != nil {
				return failed
			}
		}
		if errors.Is(err, io.EOF) {
			f.catchUp(c)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// catchUp brings this server up to date with the store, which contains every event that another server's
// answer confirms. If the store does not respond in time, catchUp only logs a warning.
func (f *forwarder) catchUp(c *call.Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request().Context()), catchUpTime)
	defer cancel()
	if err := f.host.Refresh(ctx, c.Param("ledger")); err != nil {
		f.config.Logger.Warn("a response was forwarded, but this server does not yet show the events that the response confirms", "ledger", c.Param("ledger"), "error", err)
	}
}

// forwarding is a request body that is being sent to another server. The transport can read it
// until stop returns.
type forwarding struct {
	call       *call.Call
	controller *http.ResponseController
	idle       time.Duration // longest time that the client of a batch can stay silent; 0 for other requests
	moved      atomic.Int64  // when anything was last sent or received, in nanoseconds since 1970 UTC

	read atomic.Int64 // number of bytes read from the body
	eof  atomic.Bool  // whether the end of the body has been read

	stopped atomic.Bool // whether the body must no longer be read

	mu      sync.Mutex // held during a read
	err     error      // error of the last read
	renewed time.Time
}

// stream prepares the connection for a batch, like exchange in package api/batch: it lets both
// sides send at the same time and derives the client's deadlines from idle.
func (w *forwarding) stream(idle time.Duration) error {
	w.idle = idle
	if err := w.controller.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("enabling full-duplex mode: %w", err)
	}
	w.call.Writer().BeginStream(2 * idle)
	return nil
}

// Read implements io.Reader.
func (w *forwarding) Read(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.renew()
	if w.stopped.Load() { // renew might have replaced the deadline that stop set to end this read
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := w.call.Request().Body.Read(b)
	w.err = err
	w.read.Add(int64(n))
	w.eof.Store(errors.Is(err, io.EOF))
	w.moved.Store(time.Now().UnixNano())
	return n, err
}

// renew extends the deadlines of a batch. It is called with w.mu held.
func (w *forwarding) renew() {
	if now := time.Now(); w.idle > 0 && now.Sub(w.renewed) > w.idle/8 {
		w.renewed = now
		_ = w.controller.SetReadDeadline(now.Add(w.idle))
		_ = w.controller.SetWriteDeadline(now.Add(2 * w.idle))
	}
}

// Close implements io.Closer. It does nothing, because net/http closes the body.
func (w *forwarding) Close() error { return nil }

// progress records that the other server has sent something, and gives the client of a batch more
// time to send.
func (w *forwarding) progress() {
	now := time.Now()
	w.moved.Store(now.UnixNano())
	if w.idle > 0 {
		_ = w.controller.SetReadDeadline(now.Add(w.idle))
	}
}

// ended reports whether the whole body was read. It does not wait for a read in progress.
func (w *forwarding) ended() bool {
	r := w.call.Request()
	return r.Body == nil || r.Body == http.NoBody || w.eof.Load() || r.ContentLength >= 0 && w.read.Load() == r.ContentLength
}

// stop ends all reads of the body, including a read that is waiting for the client, and waits
// until no read is in progress.
func (w *forwarding) stop() {
	w.stopped.Store(true)
	_ = w.controller.SetReadDeadline(time.Now())
	w.mu.Lock() // wait for a read in progress
	defer w.mu.Unlock()
}

// end discards the rest of the body if little of it is left; otherwise, end makes this request the
// last on its connection. It must run before the handler returns.
func (w *forwarding) end() {
	r := w.call.Request()
	if w.ended() {
		return
	}
	w.stop()
	if w.idle == 0 {
		return // limits.Writer drains the body unless the request is a batch
	}
	_ = w.controller.SetReadDeadline(time.Now().Add(limits.MaxDrainTime))
	n, err := io.CopyN(io.Discard, r.Body, limits.MaxDrainBytes)
	if n == limits.MaxDrainBytes || !errors.Is(err, io.EOF) {
		limits.EndConnectionAfter(r)
		if r.ProtoMajor == 1 {
			_ = r.Body.Close() // see batch.exchange
		}
	}
}

// unreadable returns a problem if the client failed to send the whole body, and nil otherwise.
func (w *forwarding) unreadable(patience time.Duration) error {
	if !w.mu.TryLock() { // a read is waiting for the client
		return nil
	}
	defer w.mu.Unlock()
	if w.err == nil || errors.Is(w.err, io.EOF) || w.stopped.Load() {
		return nil
	}
	if slow := limits.SlowBodyRefusal(w.err, patience); slow != nil {
		return slow
	}
	return problem.New(http.StatusBadRequest, "the body cannot be read completely")
}
