package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Snapshot makes a consistent copy of the database, beside it, for a backup on the same
// machine. Name is that of the copy's folder; Erasing counts the erased content that may
// still be in its files. ErrNoSnapshot if no backup waits for one.
type Snapshot func(ctx context.Context) (name string, erasing int, err error)

// ErrNoSnapshot is wrapped by what says why a Snapshot makes no copy; clients read it.
var ErrNoSnapshot = errors.New("no copy is made")

// snapshot makes a copy that `colophon backup` takes away.
func (s *Server) snapshot(c echo.Context) error {
	if err := query(c); err != nil {
		return err
	}
	if s.config.Snapshot == nil {
		return fault(http.StatusConflict, "this server's storage makes no snapshots")
	}
	name, erasing, err := s.config.Snapshot(c.Request().Context())
	if errors.Is(err, ErrNoSnapshot) {
		return fault(http.StatusConflict, "%v", err)
	}
	if err != nil {
		return err
	}
	s.config.Log.Info("snapshot made", "name", name, "actor", actor(c))
	return answerJSON(c, http.StatusCreated, struct {
		Name    string `json:"name"`
		Erasing int    `json:"erasing"`
	}{name, erasing})
}
