package admin

import (
	"context"
	"errors"
	"net/http"

	"colophon/api/call"
	"colophon/api/problem"
)

// SnapshotFunc makes a consistent copy of the database for a backup on the same machine, and
// returns the name of the copy's folder. erasing is the number of erased pieces of content
// that might still be in the copied files. The error wraps ErrNoSnapshot if no backup is
// waiting for a copy.
type SnapshotFunc func(ctx context.Context) (name string, erasing int, err error)

// ErrNoSnapshot means that a SnapshotFunc did not make a copy. The text of the error is sent to
// clients.
var ErrNoSnapshot = errors.New("no snapshot was made")

// MakeSnapshot makes a copy of the database for `colophon backup`.
func (h *Handlers) MakeSnapshot(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	if h.Snapshot == nil {
		return problem.New(http.StatusConflict, "this server's storage does not support snapshots")
	}
	name, erasing, err := h.Snapshot(c.Request().Context())
	if errors.Is(err, ErrNoSnapshot) {
		return problem.New(http.StatusConflict, "%v", err)
	}
	if err != nil {
		return err
	}
	h.Logger.Info("snapshot created", "name", name, "actor", c.Actor())
	return c.AnswerJSON(http.StatusCreated, struct {
		Name    string `json:"name"`
		Erasing int    `json:"erasing"`
	}{name, erasing})
}
