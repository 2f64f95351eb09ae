package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/ledger"
	"colophon/proofs"
)

// key answers the current verifier key of the log and its predecessors, in the format that
// proofs.ParseLogKey reads.
func (s *Server) key(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, l.Keys())
}

// changeKeys rotates or retires the signing key of a ledger.
func (s *Server) changeKeys(c echo.Context) error {
	l, err := s.ledger(c)
	if err != nil {
		return err
	}
	if err := query(c); err != nil {
		return err
	}
	var step string
	if err := s.decode(c, map[string]*string{"step": &step}); err != nil {
		return err
	}
	var ack ledger.Ack
	switch step {
	case "rotate":
		ack, err = s.host.RotateKey(c.Request().Context(), l.Name(), actor(c))
	case "retire":
		ack, err = s.host.RetireKey(c.Request().Context(), l.Name(), actor(c))
	default:
		return atPointer(http.StatusUnprocessableEntity, "/step", "must be rotate or retire")
	}
	if err != nil {
		return err
	}
	var keys []string
	for _, v := range signing(l.Keys()) {
		keys = append(keys, v.String())
	}
	s.config.Log.Info("signing key changed", "ledger", l.Name(), "event", ack.Seq, "actor", actor(c), "signing", keys)
	return s.appended(c, l, ack, false)
}

// signing returns the keys that sign now: one, or two during an overlap.
func signing(keys *proofs.KeyHistory) []*proofs.Verifier {
	list := []*proofs.Verifier{keys.Current()}
	if overlapping := keys.Overlapping(); overlapping != nil {
		list = append(list, overlapping)
	}
	return list
}
