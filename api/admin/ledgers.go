package admin

import (
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger"
)

// ledgerRow describes a ledger and its head.
type ledgerRow struct {
	Name        string    `json:"name"`
	Origin      string    `json:"origin"` // origin of the log's checkpoints
	VerifierKey string    `json:"verifier_key"`
	Created     time.Time `json:"created"`
	Frozen      bool      `json:"frozen"`      // true if the ledger accepts no more events
	OnMismatch  string    `json:"on_mismatch"` // "accept" or "reject"
	Log         string    `json:"log"`         // "public" or "private"
	// UnregisteredSources is "accept" or "reject".
	UnregisteredSources string `json:"unregistered_sources"`
	// OTLPContent is "keep" or "hashes".
	OTLPContent string    `json:"otlp_content"`
	TreeSize    uint64    `json:"tree_size"`  // number of events in the log
	RootHash    hexHash   `json:"root_hash"`  // root of the log's Merkle tree
	Tip         hexHash   `json:"tip"`        // event_hash of the last event
	LastEvent   time.Time `json:"last_event"` // time of the last event
	Scopes      []string  `json:"scopes"`     // the caller's scopes on the ledger
}

// describe returns the row for a ledger at its current head, including the caller's scopes.
func describe(c *call.Call, l *ledger.Ledger) ledgerRow {
	info, head, settings := l.Info(), l.Head(), l.Settings()
	return ledgerRow{
		Name: info.Name, Origin: info.Origin, VerifierKey: l.VerifierKey(), Created: info.Created.UTC(),
		Frozen: info.Frozen, OnMismatch: l.MismatchPolicy(), Log: settings.LogVisibility, UnregisteredSources: settings.UnregisteredSources, OTLPContent: settings.TelemetryContent, TreeSize: head.Size,
		RootHash: head.Root, Tip: head.Tip, LastEvent: time.UnixMicro(head.TimeMicros).UTC(), Scopes: c.Identity().ScopesOn(info.Name).Names(),
	}
}

// ListLedgers sends the list of ledgers on which the caller has at least one scope.
func (h *Handlers) ListLedgers(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	rows := []ledgerRow{}
	for _, l := range h.Host.Ledgers() {
		if c.Identity().ScopesOn(l.Name()) != 0 {
			rows = append(rows, describe(c, l))
		}
	}
	return c.AnswerJSON(http.StatusOK, struct {
		Ledgers []ledgerRow `json:"ledgers"`
	}{rows})
}

func (h *Handlers) DescribeLedger(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	return c.AnswerJSON(http.StatusOK, describe(c, l))
}

// CreateLedger creates a ledger with its own signing key.
func (h *Handlers) CreateLedger(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	n := ledger.CreateOptions{Actor: c.Actor()}
	if err := decode(c, map[string]*string{"name": &n.Name, "origin": &n.Origin, "on_mismatch": &n.MismatchPolicy}); err != nil {
		return err
	}
	switch n.MismatchPolicy {
	case "", ledger.MismatchPolicyAccept, ledger.MismatchPolicyReject:
	default:
		return problem.AtPointer(http.StatusUnprocessableEntity, "/on_mismatch", `must be "accept" or "reject"`)
	}
	l, err := h.Host.Create(c.Request().Context(), n)
	switch {
	case errors.Is(err, ledger.ErrInvalidName):
		return problem.AtPointer(http.StatusUnprocessableEntity, "/name", ledger.ErrInvalidName.Error())
	case errors.Is(err, ledger.ErrInvalidOrigin):
		return problem.AtPointer(http.StatusUnprocessableEntity, "/origin", ledger.ErrInvalidOrigin.Error())
	case err != nil:
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/ledgers/"+l.Name())
	return c.AnswerJSON(http.StatusCreated, describe(c, l))
}

// FreezeLedger makes a ledger permanently read-only.
func (h *Handlers) FreezeLedger(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	if err := l.Freeze(c.Request().Context()); err != nil {
		return err
	}
	h.OnFrozen(l)
	h.Logger.Info("ledger frozen", "ledger", l.Name(), "actor", c.Actor())
	return c.AnswerJSON(http.StatusOK, describe(c, l))
}

// SetLogVisibility makes a ledger's transparency log public or private. The change does not add an
// event to the ledger; only the server's log records it, with the caller's name.
func (h *Handlers) SetLogVisibility(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	var log string
	if err := decode(c, map[string]*string{"log": &log}); err != nil {
		return err
	}
	if log != ledger.LogVisibilityPublic && log != ledger.LogVisibilityPrivate {
		return problem.AtPointer(http.StatusUnprocessableEntity, "/log", `must be "public" or "private"`)
	}
	if err := l.SetLogPublic(c.Request().Context(), log == ledger.LogVisibilityPublic); err != nil {
		return err
	}
	h.Logger.Info("visibility of a log changed", "ledger", l.Name(), "log", log, "actor", c.Actor())
	return c.AnswerJSON(http.StatusOK, describe(c, l))
}

// SetUnregisteredSourcePolicy makes a ledger accept or refuse citation sets that cite unregistered
// sources. The change does not add an event to the ledger; only the server's log records it, with
// the caller's name.
func (h *Handlers) SetUnregisteredSourcePolicy(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	var policy string
	if err := decode(c, map[string]*string{"unregistered_sources": &policy}); err != nil {
		return err
	}
	if policy != ledger.UnregisteredSourcesAccept && policy != ledger.UnregisteredSourcesReject {
		return problem.AtPointer(http.StatusUnprocessableEntity, "/unregistered_sources", `must be "accept" or "reject"`)
	}
	if err := l.SetRejectUnregisteredSources(c.Request().Context(), policy == ledger.UnregisteredSourcesReject); err != nil {
		return err
	}
	h.Logger.Info("policy for unregistered sources changed", "ledger", l.Name(), "unregistered_sources", policy, "actor", c.Actor())
	return c.AnswerJSON(http.StatusOK, describe(c, l))
}

// SetOTLPContentPolicy sets whether a ledger keeps the content of future generations that arrive over
// OTLP, or only its hashes. The change does not add an event to the ledger; only the server's log
// records it, with the caller's name.
func (h *Handlers) SetOTLPContentPolicy(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	var content string
	if err := decode(c, map[string]*string{"otlp_content": &content}); err != nil {
		return err
	}
	if content != ledger.TelemetryContentKeep && content != ledger.TelemetryContentHashes {
		return problem.AtPointer(http.StatusUnprocessableEntity, "/otlp_content", `must be "keep" or "hashes"`)
	}
	if err := l.SetTelemetryHashesOnly(c.Request().Context(), content == ledger.TelemetryContentHashes); err != nil {
		return err
	}
	h.Logger.Info("policy for OTLP content changed", "ledger", l.Name(), "otlp_content", content, "actor", c.Actor())
	return c.AnswerJSON(http.StatusOK, describe(c, l))
}

// hexHash is a hash that is encoded as hexadecimal digits in JSON.
type hexHash [32]byte

// MarshalText returns 64 lower-case hexadecimal digits.
func (h hexHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }
