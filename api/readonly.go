package api

import (
	"errors"
	"net/http"
	"time"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/api/problem"
	"colophon/ledger"
	"colophon/storage"
)

// changes reports whether the handler changes the server or a ledger. Callers that may only
// read can use all other routes.
func (r route) changes() bool {
	const changing = access.ScopeWrite | access.ScopeAdmin
	return r.method != http.MethodGet && (r.needs.AllOf&changing != 0 || r.needs.AnyOf != 0 && r.needs.AnyOf&^changing == 0)
}

// readOnly wraps a handler of a read-only server so that requests that change something are
// refused. The refusal names the server that accepts them.
func (s *Server) readOnly(r route, handler call.Handler) call.Handler {
	if r.changes() {
		return func(c *call.Call) error {
			return elsewhere(http.StatusForbidden, "this server is read-only; nothing was written; send writes to %s", s.writer(c.Param("ledger")))
		}
	}
	return func(c *call.Call) error {
		err := handler(c)
		if c.Response().Committed {
			return err
		}
		if errors.Is(err, storage.ErrLeaseNotHeld) {
			return elsewhere(http.StatusNotFound, "this server is read-only and cannot sign a checkpoint for the requested tree size; omit the size, or ask %s", s.writer(c.Param("ledger")))
		}
		if errors.Is(err, ledger.ErrUnknownLedger) && s.config.StalenessError != nil {
			if behind := s.config.StalenessError(); behind != nil {
				return limits.NewRejectedError("", http.StatusServiceUnavailable, time.Second, "this server might not have received the ledger yet: %v", behind)
			}
		}
		return err
	}
}

// elsewhere returns a problem that refers the client to another server.
func elsewhere(status int, format, server string) *problem.Problem {
	p := problem.New(status, format, server)
	p.ReadOnly = true
	return p
}

// writer returns the URL of the server that writes the named ledger, or a phrase that describes
// that server if its URL is unknown.
func (s *Server) writer(name string) string {
	if s.config.WriterURL != nil {
		if writerURL, _ := s.config.WriterURL(name); writerURL != "" {
			return writerURL
		}
	}
	return "the server that writes the ledger"
}
