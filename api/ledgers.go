package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/ledger/index/counters"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// ledgerRow describes a ledger and its head.
type ledgerRow struct {
	Name        string    `json:"name"`
	Origin      string    `json:"origin"`
	VerifierKey string    `json:"verifier_key"`
	Created     time.Time `json:"created"`
	Frozen      bool      `json:"frozen"`
	OnMismatch  string    `json:"on_mismatch"`
	Log         string    `json:"log"` // public or private
	TreeSize    uint64    `json:"tree_size"`
	RootHash    hexHash   `json:"root_hash"`
	Tip         hexHash   `json:"tip"` // event_hash of the last event
	LastEvent   time.Time `json:"last_event"`
}

func describe(l *ledger.Ledger) ledgerRow {
	info, head := l.Info(), l.Head()
	return ledgerRow{
		Name: info.Name, Origin: info.Origin, VerifierKey: l.VerifierKey(), Created: info.Created.UTC(),
		Frozen: info.Frozen, OnMismatch: l.OnMismatch(), Log: l.Visibility(), TreeSize: head.Size,
		RootHash: head.Root, Tip: head.Tip, LastEvent: time.UnixMicro(head.Time).UTC(),
	}
}

// listLedgers answers the ledgers on which the caller has any scope.
func (s *Server) listLedgers(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	rows := []ledgerRow{}
	for _, l := range s.host.Ledgers() {
		if identityOf(c).On(l.Name()) != 0 {
			rows = append(rows, describe(l))
		}
	}
	return answerJSON(c, http.StatusOK, struct {
		Ledgers []ledgerRow `json:"ledgers"`
	}{rows})
}

func (s *Server) describeLedger(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, describe(l))
}

// createLedger makes a ledger with its own signing key.
func (s *Server) createLedger(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	n := ledger.New{Actor: actor(c)}
	if err := s.decode(c, map[string]*string{"name": &n.Name, "origin": &n.Origin, "on_mismatch": &n.OnMismatch}); err != nil {
		return err
	}
	switch n.OnMismatch {
	case "", ledger.AcceptMismatch, ledger.RejectMismatch:
	default:
		return atPointer(http.StatusUnprocessableEntity, "/on_mismatch", "must be accept or reject")
	}
	l, err := s.host.Create(c.Request().Context(), n)
	switch {
	case errors.Is(err, ledger.ErrName):
		return atPointer(http.StatusUnprocessableEntity, "/name", ledger.ErrName.Error())
	case errors.Is(err, ledger.ErrOrigin):
		return atPointer(http.StatusUnprocessableEntity, "/origin", ledger.ErrOrigin.Error())
	case err != nil:
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/ledgers/"+l.Name())
	return answerJSON(c, http.StatusCreated, describe(l))
}

// decode reads a JSON object of strings strictly. Unknown members and JSON that pyjson refuses
// (spec: Refused JSON) are 400. Values of other types are 422. null counts as absent.
func (s *Server) decode(c echo.Context, to map[string]*string) error {
	body, err := s.readBody(c)
	if err != nil {
		return err
	}
	defer release(body)
	if err := s.beginDecoding(c, body); err != nil {
		return err
	}
	defer endHeavy(c)
	var document pyjson.Document
	if err := document.ParseWithin(body.Bytes(), record.DefaultLimits().Values); err != nil {
		return atPointer(http.StatusBadRequest, "", "the request is malformed: "+err.Error())
	}
	if document.Root().Kind() != pyjson.Object {
		return atPointer(http.StatusUnprocessableEntity, "", "must be an object")
	}
	for name, value := range document.Root().Members() {
		pointer := string(pyjson.AppendPointer(nil, name.Text()))
		target, known := to[string(name.Text())]
		switch {
		case !known:
			return atPointer(http.StatusBadRequest, pointer, "unknown member; remove it or correct its name")
		case !value.Given():
		case value.Kind() != pyjson.String || pyjson.HasLoneSurrogate(value.Text()):
			return atPointer(http.StatusUnprocessableEntity, pointer, "must be a string of valid UTF-8")
		default:
			*target = string(value.Text())
		}
	}
	return nil
}

// atPointer returns a problem about one place in the request.
func atPointer(status int, pointer, detail string) *problem {
	p := fault(status, "%s: %s", pointer, detail)
	p.Errors = []errorPlace{{Pointer: pointer, Detail: detail}}
	return p
}

// freeze ends all writes to a ledger, for good.
func (s *Server) freeze(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	if err := l.Freeze(c.Request().Context()); err != nil {
		return err
	}
	s.streams.stream(l).freeze()
	s.config.Log.Info("ledger frozen", "ledger", l.Name(), "actor", actor(c))
	return answerJSON(c, http.StatusOK, describe(l))
}

// changeVisibility makes a ledger's transparency log public or private. This adds no event;
// the server's log names the caller.
func (s *Server) changeVisibility(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	var log string
	if err := s.decode(c, map[string]*string{"log": &log}); err != nil {
		return err
	}
	if log != ledger.PublicLog && log != ledger.PrivateLog {
		return atPointer(http.StatusUnprocessableEntity, "/log", "must be public or private")
	}
	if err := l.SetPublic(c.Request().Context(), log == ledger.PublicLog); err != nil {
		return err
	}
	s.config.Log.Info("visibility of a log changed", "ledger", l.Name(), "log", log, "actor", actor(c))
	return answerJSON(c, http.StatusOK, describe(l))
}

// statsAnswer holds the counters of a ledger, folded from its first as_of events.
type statsAnswer struct {
	AsOf     uint64            `json:"as_of"`
	TreeSize uint64            `json:"tree_size"`
	Records  map[string]uint64 `json:"records"`
	Refusals map[string]uint64 `json:"refusals"`
	Checks   []checkCount      `json:"checks"`
}

type checkCount struct {
	Kind   string `json:"kind"`
	Field  string `json:"field"`
	Result string `json:"result"`
	Count  uint64 `json:"count"`
}

// stats returns the ledger's counters at the current head. If the index lags far behind, it
// returns them at the index's size.
func (s *Server) stats(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	endHeavy(c) // others compute while it waits
	follower, _, err := s.waitForIndexOrLag(c.Request().Context(), l, l.Head().Size)
	if err != nil {
		return err
	}
	t := counters.TallyOf(follower) // read before the head, so that as_of never exceeds tree_size
	answer := statsAnswer{AsOf: t.Size, TreeSize: l.Head().Size, Records: t.Records, Refusals: t.Refusals, Checks: []checkCount{}}
	for _, n := range t.Checks {
		answer.Checks = append(answer.Checks, checkCount(n))
	}
	return answerJSON(c, http.StatusOK, answer)
}
