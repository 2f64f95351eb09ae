package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Snapshot copies the database consistently for a backup on the same machine, and returns the
// name of the copy's folder. erasing counts erased content that may still be in the copied
// files. The error wraps ErrNoSnapshot if no backup waits for a copy.
type Snapshot func(ctx context.Context) (name string, erasing int, err error)

// ErrNoSnapshot means that a Snapshot made no copy. Clients read the text of the error.
var ErrNoSnapshot = errors.New("no copy is made")

// snapshot makes a copy for `colophon backup`.
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
