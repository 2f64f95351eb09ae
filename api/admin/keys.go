package admin

import (
	"net/http"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/receipts"
	"colophon/ledger"
	"colophon/proofs"
)

// ChangeKeys rotates or retires the signing key of a ledger.
func (h *Handlers) ChangeKeys(c *call.Call) error {
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := c.ParseParameters(); err != nil {
		return err
	}
	var step string
	if err := decode(c, map[string]*string{"step": &step}); err != nil {
		return err
	}
	var ack ledger.Ack
	switch step {
	case "rotate":
		ack, err = h.Host.RotateKey(c.Request().Context(), l.Name(), c.Actor())
	case "retire":
		ack, err = h.Host.RetireKey(c.Request().Context(), l.Name(), c.Actor())
	default:
		return problem.AtPointer(http.StatusUnprocessableEntity, "/step", `must be "rotate" or "retire"`)
	}
	if err != nil {
		return err
	}
	var keys []string
	for _, v := range signing(l.KeyHistory()) {
		keys = append(keys, v.String())
	}
	h.Logger.Info("signing key changed", "ledger", l.Name(), "event", ack.Seq, "actor", c.Actor(), "signing", keys)
	return receipts.SendAck(c, l, ack, false)
}

// signing returns the keys that currently sign the log: one, or two while an old and a new key
// overlap.
func signing(keys *proofs.KeyHistory) []*proofs.Verifier {
	list := []*proofs.Verifier{keys.CurrentKey()}
	if overlapping := keys.OverlappingKey(); overlapping != nil {
		list = append(list, overlapping)
	}
	return list
}
